"""The stories' runners as a Worker has them: what they are asked is written down, and held where the story says so.

What the model replies and what the tools do is `ScriptedRunner`'s business, as in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.testing import FileGate, InvocationLog
from dex_agents_model import FrameworkMessage
from dex_agents_model.effects import HistorySummarized
from dex_agents_model.runner import (
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    SummaryRequest,
    ToolExecutionResult,
    UnfinishedTurn,
)
from dex_agents_model.simulation import ScriptedRunner, ThoroughRunner

from .moment import Ran
from .stories import STORIES
from .story import Story

STATE_DIR_VARIABLE: Final = "CONFORMANCE_STATE_DIR"


def gate_of(state_dir: Path, session_id: str, name: str) -> FileGate:
    """Holds one model or tool call of one session."""
    return FileGate(state_dir, f"{session_id} {name}")


def ran_in(state_dir: Path, session_id: str) -> tuple[Ran, ...]:
    """The calls of one session's runner that began, sorted."""
    start = f"{session_id}/"
    return tuple(
        sorted(
            Ran(call.name, call.key.removeprefix(start), call.attempt)
            for call in _log_in(state_dir).read()
            if call.key.startswith(start)
        )
    )


def build_flows(state_dir: Path) -> tuple[AgentSessionFlow, ...]:
    """One for each story. ``state_dir`` holds the gates and the log."""
    return tuple(
        AgentSessionFlow(
            _witnessed(story, state_dir), flow_type=story.flow_type, options=story.options
        )
        for story in STORIES
    )


def _witnessed(story: Story, state_dir: Path) -> Witnessed:
    if isinstance(story.runner, ThoroughRunner):
        return ThoroughlyWitnessed(story.runner, story.held, state_dir, story.runner)
    return Witnessed(story.runner, story.held, state_dir)


def _log_in(state_dir: Path) -> InvocationLog:
    return InvocationLog(state_dir / "invocations")


@frozen
class Witnessed:
    """``runner``, whose model and tool calls are logged, and held when ``held`` names them."""

    runner: ScriptedRunner
    held: frozenset[str]
    state_dir: Path

    def build_user_message(self, text: str) -> FrameworkMessage:
        return self.runner.build_user_message(text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        self._note("model", f"{turn.flow_id}/{turn.turn_id}", turn.attempt)
        await self._hold(turn.flow_id, turn.turn_id)
        return await self.runner.run_model_step(turn)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        self._note(call.tool_call.tool_name, call.idempotency_key, call.attempt)
        await self._hold(call.flow_id, f"{call.tool_call.turn_id}/{call.tool_call.tool_call_id}")
        return await self.runner.execute_deferred_tool_call(call)

    def _note(self, name: str, key: str, attempt: int) -> None:
        _log_in(self.state_dir).record(name, key=key, attempt=attempt)

    async def _hold(self, session_id: str, name: str) -> None:
        if name in self.held:
            await gate_of(self.state_dir, session_id, name).wait_for_release()


@frozen
class ThoroughlyWitnessed(Witnessed):
    """The same with a runner that keeps unfinished turns and summarises history."""

    thorough: ThoroughRunner

    def build_unfinished_turn_messages(self, turn: UnfinishedTurn) -> Sequence[FrameworkMessage]:
        return self.thorough.build_unfinished_turn_messages(turn)

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        self._note("summary", f"{request.flow_id}/{request.turn_id}", request.attempt)
        return await self.thorough.summarize_history(request)

    def estimate_overhead_tokens(self) -> int:
        return self.thorough.estimate_overhead_tokens()
