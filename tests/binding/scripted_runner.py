"""A runner without any framework: its model and its tools do what the user's message says (`script`)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from dex_agents_dex.testing import FileGate, InvocationLog
from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    DeferredToolCall,
    DeferredToolExecution,
    FrameworkMessage,
    HistorySummarized,
    MessageRole,
    SummaryRequest,
    ToolCallsRequested,
    ToolExecutionError,
    ToolExecutionResult,
    TurnCompleted,
    describe_tool_call_outcome,
)
from dex_agents_model.calls import FinalCall

from .script import Call, Script

UNBUILDABLE = "odd: "
"""The runner can build no message of a text that begins so."""
SUMMARY_CRASHES = "nobody can summarise this"
"""Whoever is to summarise a turn with these words crashes."""
ONE_CALL = AgentUsage(requests=1, input_tokens=10, output_tokens=2)


def gate_of(state_dir: Path, session_id: str, name: str) -> FileGate:
    """A gate of one session's script."""
    return FileGate(state_dir, f"{session_id} {name}")


def invocations_in(state_dir: Path) -> InvocationLog:
    """Every model call (``model``) and every tool call (by the tool's name) that really began."""
    return InvocationLog(state_dir / "invocations")


async def hold(state_dir: Path, session_id: str, name: str | None) -> None:
    """Wait at a gate of the session's script; without a name there is none."""
    if name is None:
        return
    gate = gate_of(state_dir, session_id, name)
    gate.mark_reached()
    try:
        await gate.wait_for_release()
    except asyncio.CancelledError:
        gate_of(state_dir, session_id, f"{name}, cut off").mark_reached()
        raise


class ScriptedRunner:
    """Keeps nothing but the directory of its gates and its log."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def build_user_message(self, text: str) -> FrameworkMessage:
        if text.startswith(UNBUILDABLE):
            raise ValueError("too odd")
        item = json.dumps({"user": text})
        return FrameworkMessage(role=MessageRole.USER, framework_item=item, text=text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        number, heard = _progress(turn)
        replies = Script.of(turn.messages[-1].text or "").replies
        reply = replies[number]
        key = f"{turn.flow_id}/{turn.turn_id}/{number}"
        invocations_in(self._state_dir).record("model", key=key, attempt=turn.attempt)
        await hold(self._state_dir, turn.flow_id, reply.gate)
        for delta in reply.deltas:
            turn.events.write_text_delta(delta)
        if reply.delta_from_thread is not None:
            await asyncio.to_thread(turn.events.write_text_delta, reply.delta_from_thread)
        if reply.crash is not None and turn.attempt <= reply.crashes_until_attempt:
            raise ConnectionError(reply.crash)
        if reply.calls:
            calls = tuple(_deferred(call, turn) for call in reply.calls)
            return ToolCallsRequested(json.dumps([number + 1, heard]), calls, ONE_CALL)
        asked = tuple(call for earlier in replies[:number] for call in earlier.calls)
        results = tuple(_result(turn, call) for call in asked)
        spoken = tuple(_message(MessageRole.USER, text) for text in heard)
        text = reply.text if reply.text_characters is None else "a" * reply.text_characters
        answer = _message(MessageRole.ASSISTANT, text)
        return TurnCompleted((*results, *spoken, answer), ONE_CALL, output=reply.output)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        asked = Call.of(call.tool_call.arguments)
        await hold(self._state_dir, call.flow_id, asked.early_gate)
        invocations_in(self._state_dir).record(
            call.tool_call.tool_name, key=call.idempotency_key, attempt=call.attempt
        )
        await hold(self._state_dir, call.flow_id, asked.gate)
        if asked.crash is not None:
            raise ConnectionError(asked.crash)
        if asked.error is not None:
            raise ToolExecutionError(asked.error)
        await hold(self._state_dir, call.flow_id, asked.late_gate)
        return ToolExecutionResult(output_of(asked, call.tool_call.arguments))


class SummarizingRunner(ScriptedRunner):
    """Its summary is always the same; it crashes over a turn whose model said so."""

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        if any(SUMMARY_CRASHES in (message.text or "") for message in request.messages):
            raise ConnectionError("no summary today")
        return HistorySummarized("what was said so far", ONE_CALL)

    def estimate_overhead_tokens(self) -> int:
        return 0


def output_of(call: Call, arguments: str) -> str:
    """What the tool returns, which was given ``arguments``, when it neither crashes nor fails."""
    if call.measures:
        return f"{len(arguments)} characters"
    if call.output_characters is not None:
        return "o" * call.output_characters
    return call.output


def _progress(turn: AgentTurnContext) -> tuple[int, list[str]]:
    """How many model calls of the turn lie before this one, and all that was said to it meanwhile."""
    number, heard = json.loads(turn.framework_run_state or "[0, []]")
    return number, [*heard, *(said.text or "" for said in turn.steering_messages)]


def _deferred(call: Call, turn: AgentTurnContext) -> DeferredToolCall:
    policy = turn.resolve_tool_policy(call.tool)
    return DeferredToolCall(call.id, call.tool, call.arguments(), policy)


def _result(turn: AgentTurnContext, call: Call) -> FrameworkMessage:
    record = turn.recorded_tool_call(call.id)
    assert isinstance(record, FinalCall)
    return _message(MessageRole.TOOL, f"{call.id}: {describe_tool_call_outcome(record)}")


def _message(role: MessageRole, text: str) -> FrameworkMessage:
    return FrameworkMessage(role=role, framework_item=json.dumps({role: text}), text=text)
