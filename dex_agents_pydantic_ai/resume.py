"""The results of a turn's tool calls, in the form in which Pydantic AI takes them. No status is decided here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic_ai import DeferredToolResults, ToolDenied
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    CapabilityLoadDeltaPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from dex_agents_model import (
    AgentToolCall,
    FinalCall,
    Rejected,
    Succeeded,
    ToolCallId,
    describe_tool_call_outcome,
    shorten_result,
)

from .cleaning import clean_json
from .errors import ModelStepFailed
from .history import RunState, tool_calls_of
from .queued import Queued
from .tool_content import ToolContent, full_value
from .tool_output import output_text


def deferred_results(
    state: RunState,
    records: Mapping[ToolCallId, AgentToolCall],
    shortened: frozenset[ToolCallId],
) -> tuple[DeferredToolResults, Queued]:
    """One result for each call that waits in ``state``, to go on with the turn, and what is told beside them.

    Of the ``shortened`` ones only the start, without their files.

    Raises:
        ModelStepFailed: a call has no final record, or one that cannot be read.
    """
    results = DeferredToolResults()
    queued = [state.queued]
    for part, record in _waiting(state, records):
        match record:
            case Rejected():
                # Among the approvals for every kind of tool: elsewhere it would count as a success.
                results.approvals[part.tool_call_id] = ToolDenied(
                    describe_tool_call_outcome(record)
                )
            case Succeeded():
                beside = ToolContent.of(record)
                queued.append(beside.queued)
                value = (
                    shorten_result(describe_tool_call_outcome(record))
                    if _is_among(part, shortened)
                    else _value(part, record, beside)
                )
                results.calls[part.tool_call_id] = beside.to_return(value)
            case _:
                results.calls[part.tool_call_id] = ToolFailed(describe_tool_call_outcome(record))
    return results, Queued.joined(queued)


def shown_to_model(
    messages: Sequence[ModelMessage], shortened: frozenset[ToolCallId]
) -> list[ModelMessage]:
    """The messages with only the start of the ``shortened`` results."""

    def shown(part: ToolReturnPart) -> ToolReturnPart:
        return replace(part, content=shorten_result(output_text(part)))

    return _with_results(messages, shortened, shown)


def with_full_results(
    messages: Sequence[ModelMessage],
    records: Mapping[ToolCallId, AgentToolCall],
    shortened: frozenset[ToolCallId],
) -> list[ModelMessage]:
    """The messages of a run that was shown ``shortened`` results, as they are to be kept: in full."""

    def full(part: ToolReturnPart) -> ToolReturnPart:
        record = records[ToolCallId.standing_for(part.tool_call_id)]
        if not isinstance(record, Succeeded):
            return part
        return replace(part, content=full_value(record, ToolContent.of(record)))

    return _with_results(messages, shortened, full)


def _with_results(
    messages: Sequence[ModelMessage],
    call_ids: frozenset[ToolCallId],
    changed: Callable[[ToolReturnPart], ToolReturnPart],
) -> list[ModelMessage]:
    if not call_ids:
        return list(messages)
    return [
        replace(
            message,
            parts=[
                changed(part)
                if isinstance(part, ToolReturnPart) and _is_among(part, call_ids)
                else part
                for part in message.parts
            ],
        )
        if isinstance(message, ModelRequest)
        else message
        for message in messages
    ]


def _is_among(part: ToolCallPart | ToolReturnPart, call_ids: frozenset[ToolCallId]) -> bool:
    """Typed results, such as those of a tool search, are never shortened: they reveal tools."""
    return part.tool_kind is None and ToolCallId.standing_for(part.tool_call_id) in call_ids


def answered_messages(
    state: RunState, records: Mapping[ToolCallId, AgentToolCall]
) -> tuple[ModelMessage, ...]:
    """The messages of ``state`` with one result for each call that waits in it, to end the turn there.

    Raises:
        ModelStepFailed: a call has no final record, or one that cannot be read.
    """
    returns: list[ModelRequestPart] = []
    said: list[ModelRequestPart] = []
    queued = list(state.queued.messages)
    for call, record in _waiting(state, records):
        beside = ToolContent.of(record) if isinstance(record, Succeeded) else ToolContent()
        returns.append(_return_part(call, record, beside))
        for part in beside.parts_beside(call.tool_call_id):
            (said if isinstance(part, UserPromptPart) else returns).append(part)
        queued += beside.queued.messages
    if state.queued.loads:
        returns.append(CapabilityLoadDeltaPart(loaded=list(state.queued.loads)))
    return (*state.messages, ModelRequest(parts=[*returns, *said]), *queued)


def _waiting(
    state: RunState, records: Mapping[ToolCallId, AgentToolCall]
) -> Iterator[tuple[ToolCallPart, FinalCall]]:
    parts = {call.tool_call_id: call for call in tool_calls_of(state.messages)}
    for call_id in state.call_ids:
        record = records.get(ToolCallId.standing_for(call_id))
        if not isinstance(record, FinalCall):
            raise ModelStepFailed(f"tool call {call_id} has no final record to go on with")
        yield parts[call_id], record


def _return_part(call: ToolCallPart, record: FinalCall, beside: ToolContent) -> ToolReturnPart:
    part = ToolReturnPart(
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        content=_value(call, record, beside),
        tool_kind=call.tool_kind,
        metadata=beside.metadata,
    )
    match record:
        case Succeeded():
            return part
        case Rejected():
            return replace(part, outcome="denied")
        case _:
            return replace(part, outcome="failed")


def _value(call: ToolCallPart, record: FinalCall, beside: ToolContent) -> object:
    """Typed results, such as those of a tool search, are JSON that Pydantic AI reads again."""
    if not isinstance(record, Succeeded):
        return describe_tool_call_outcome(record)
    if call.tool_kind is not None:
        try:
            return clean_json(json.loads(record.output))
        except ValueError:
            pass  # cut to the session's limit, or with files: it is shown as any other
    return full_value(record, beside)
