"""The agent of these tests: no framework, no network; it does what the user's words say.

"note" asks to write a note, which a person must approve. "wait" runs a read that is held at a gate.
Anything else is answered at once.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from dex_agents_dex import AgentSessionFlow, AgentSessionOptions, ToolEffect, ToolPolicy
from dex_agents_dex.testing import FileGate, InvocationLog
from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    DeferredToolCall,
    DeferredToolExecution,
    FrameworkMessage,
    MessageRole,
    ToolCallsRequested,
    ToolExecutionResult,
    TurnCompleted,
    describe_tool_call_outcome,
)
from dex_agents_model.calls import FinalCall

STATE_DIR_VARIABLE = "CLI_TEST_STATE_DIR"
FLOW_TYPE = "Obedient"
NAME = f"{__name__}:build_flow"
ONE_CALL = AgentUsage(requests=1, input_tokens=10, output_tokens=2)


def gate(state_dir: Path, session_id: str) -> FileGate:
    """Where the tool of one session waits."""
    return FileGate(state_dir, session_id)


def calls(state_dir: Path) -> InvocationLog:
    """Every tool call that really ran."""
    return InvocationLog(state_dir / "calls")


class Obedient:
    """A runner of one tool call a turn, at most."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def build_user_message(self, text: str) -> FrameworkMessage:
        return _message(MessageRole.USER, text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        text = turn.messages[-1].text or ""
        tool = next((name for name in ("note", "wait") if name in text.split()), None)
        if tool is not None and not turn.is_resuming:
            turn.events.write_text_delta(f"I will {tool}.")
            arguments = json.dumps({"text": text})
            policy = turn.resolve_tool_policy(tool)
            asked = DeferredToolCall("call-1", tool, arguments, policy)
            return ToolCallsRequested("asked", (asked,), ONE_CALL)
        produced = [_result(turn)] if turn.is_resuming else []
        answer = f"{produced[0].text}." if produced else f"You said {text}."
        for said in turn.steering_messages:
            produced.append(said)
            answer += f" Meanwhile: {said.text}."
        for word in answer.split(" "):
            turn.events.write_text_delta(f"{word} ")
        return TurnCompleted((*produced, _message(MessageRole.ASSISTANT, answer)), ONE_CALL)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        name = call.tool_call.tool_name
        calls(self._state_dir).record(name, key=call.idempotency_key, attempt=call.attempt)
        if name == "wait":
            held = gate(self._state_dir, call.flow_id)
            held.mark_reached()
            await held.wait_for_release()
        return ToolExecutionResult(f"{name} done: {json.loads(call.tool_call.arguments)['text']}")


def build_flow() -> AgentSessionFlow:
    """The Flow; the environment tells the directory of its gates and its log, for whoever looks at them."""
    options = AgentSessionOptions(
        tool_policies={
            "note": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
            "wait": ToolPolicy(ToolEffect.READ),
        }
    )
    runner = Obedient(Path(os.environ.get(STATE_DIR_VARIABLE, tempfile.gettempdir())))
    return AgentSessionFlow(runner, flow_type=FLOW_TYPE, options=options)


def _result(turn: AgentTurnContext) -> FrameworkMessage:
    record = turn.recorded_tool_call("call-1")
    assert isinstance(record, FinalCall)
    return FrameworkMessage(
        role=MessageRole.TOOL,
        framework_item="{}",
        text=describe_tool_call_outcome(record),
        tool_call_id="call-1",
        tool_name=record.tool_name,
    )


def _message(role: MessageRole, text: str) -> FrameworkMessage:
    return FrameworkMessage(role=role, framework_item=json.dumps({role: text}), text=text)
