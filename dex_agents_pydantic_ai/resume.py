"""The results of a turn's tool calls, in the form in which Pydantic AI takes them. No status is decided here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic_ai import DeferredToolResults, ToolDenied, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart

from dex_agents_model import AgentToolCall, ToolCallId, describe_tool_call_outcome
from dex_agents_model.calls import FinalCall, Rejected, Succeeded
from dex_agents_model.notes import shorten_result

from .cleaning import clean_json
from .errors import ModelStepFailed
from .history import RunState, tool_calls_of


def deferred_results(
    state: RunState,
    records: Mapping[ToolCallId, AgentToolCall],
    shortened: frozenset[ToolCallId],
) -> DeferredToolResults:
    """One result for each call that waits in ``state``, to go on with the turn.

    Of the ``shortened`` ones only the start.

    Raises:
        ModelStepFailed: a call has no final record.
    """
    results = DeferredToolResults()
    for part, record in _waiting(state, records):
        match record:
            case Rejected():
                # Among the approvals for every kind of tool: elsewhere it would count as a success.
                results.approvals[part.tool_call_id] = ToolDenied(
                    describe_tool_call_outcome(record)
                )
            case Succeeded() if _is_among(part, shortened):
                results.calls[part.tool_call_id] = ToolReturn(
                    shorten_result(describe_tool_call_outcome(record))
                )
            case Succeeded():
                results.calls[part.tool_call_id] = ToolReturn(_content(part, record))
            case _:
                results.calls[part.tool_call_id] = ToolFailed(describe_tool_call_outcome(record))
    return results


def shown_to_model(
    messages: Sequence[ModelMessage], shortened: frozenset[ToolCallId]
) -> list[ModelMessage]:
    """The messages with only the start of the ``shortened`` results."""

    def shown(part: ToolReturnPart) -> ToolReturnPart:
        return replace(part, content=shorten_result(part.model_response_str(wrap_if_error=False)))

    return _with_results(messages, shortened, shown)


def with_full_results(
    messages: Sequence[ModelMessage],
    records: Mapping[ToolCallId, AgentToolCall],
    shortened: frozenset[ToolCallId],
) -> list[ModelMessage]:
    """The messages of a run that was shown ``shortened`` results, as they are to be kept: in full."""

    def full(part: ToolReturnPart) -> ToolReturnPart:
        record = records[ToolCallId(part.tool_call_id)]
        if not isinstance(record, Succeeded):
            return part
        return replace(part, content=describe_tool_call_outcome(record))

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
    return part.tool_kind is None and part.tool_call_id in call_ids


def answered_messages(
    state: RunState, records: Mapping[ToolCallId, AgentToolCall]
) -> tuple[ModelMessage, ...]:
    """The messages of ``state`` with one result for each call that waits in it, to end the turn there.

    Raises:
        ModelStepFailed: a call has no final record.
    """
    returns = [_return_part(part, record) for part, record in _waiting(state, records)]
    return (*state.messages, ModelRequest(parts=returns))


def _waiting(
    state: RunState, records: Mapping[ToolCallId, AgentToolCall]
) -> Iterator[tuple[ToolCallPart, FinalCall]]:
    parts = {call.tool_call_id: call for call in tool_calls_of(state.messages)}
    for call_id in state.call_ids:
        record = records.get(ToolCallId(call_id))
        if not isinstance(record, FinalCall):
            raise ModelStepFailed(f"tool call {call_id} has no final record to go on with")
        yield parts[call_id], record


def _return_part(call: ToolCallPart, record: FinalCall) -> ToolReturnPart:
    part = ToolReturnPart(
        tool_name=call.tool_name,
        tool_call_id=call.tool_call_id,
        content=_content(call, record),
        tool_kind=call.tool_kind,
    )
    match record:
        case Succeeded():
            return part
        case Rejected():
            return replace(part, outcome="denied")
        case _:
            return replace(part, outcome="failed")


def _content(call: ToolCallPart, record: FinalCall) -> object:
    """Typed results, such as those of a tool search, are JSON that Pydantic AI reads again."""
    if call.tool_kind is not None and isinstance(record, Succeeded):
        try:
            return clean_json(json.loads(record.output))
        except ValueError:
            pass  # cut to the session's limit: it is shown as text
    return describe_tool_call_outcome(record)
