"""The results of a turn's tool calls, in the form in which Pydantic AI takes them. No status is decided here."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic_ai import DeferredToolResults, ToolDenied, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelResponse, ToolCallPart

from dex_agents_model import AgentToolCall, ToolCallId, describe_tool_call_outcome
from dex_agents_model.calls import FinalCall, Rejected, Succeeded

from .cleaning import clean_json
from .errors import ModelStepFailed
from .history import RunState


def deferred_results(
    state: RunState, records: Mapping[ToolCallId, AgentToolCall]
) -> DeferredToolResults:
    """One result for each call that waits in ``state``.

    Raises:
        ModelStepFailed: a call has no final record.
    """
    parts = {
        call.tool_call_id: call
        for message in state.messages
        if isinstance(message, ModelResponse)
        for call in message.tool_calls
    }
    results = DeferredToolResults()
    for call_id in state.call_ids:
        record = records.get(ToolCallId(call_id))
        match record:
            case Rejected(rejection_message=reason):
                # Among the approvals for every kind of tool: elsewhere it would count as a success.
                results.approvals[call_id] = ToolDenied(reason)
            case Succeeded(output=output):
                results.calls[call_id] = _tool_return(parts[call_id], output)
            case _ if isinstance(record, FinalCall):
                results.calls[call_id] = ToolFailed(describe_tool_call_outcome(record))
            case _:
                raise ModelStepFailed(f"tool call {call_id} has no final record to resume with")
    return results


def _tool_return(call: ToolCallPart, output: str) -> ToolReturn[object]:
    """Typed results, such as those of a tool search, are JSON that Pydantic AI reads again."""
    if call.tool_kind is None:
        return ToolReturn(output)
    try:
        return ToolReturn(clean_json(json.loads(output)))
    except ValueError:  # cut to the session's limit
        return ToolReturn(output)
