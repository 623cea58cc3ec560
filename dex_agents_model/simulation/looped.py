"""Any runner in a simulation: what it awaits is awaited on an event loop of its own."""

from __future__ import annotations

import asyncio

from attrs import frozen

from ..records import FrameworkMessage
from ..runner import (
    AgentFrameworkRunner,
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    ToolExecutionResult,
)


@frozen
class OnItsOwnLoop:
    """``runner``, each of whose calls is over when it returns, as a simulation needs it.

    To be used outside of a running event loop. Its answers are kept: a search asks the same
    question once, so it must answer alike.
    """

    runner: AgentFrameworkRunner

    def build_user_message(self, text: str) -> FrameworkMessage:
        return self.runner.build_user_message(text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        return asyncio.run(self.runner.run_model_step(turn))

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        return asyncio.run(self.runner.execute_deferred_tool_call(call))
