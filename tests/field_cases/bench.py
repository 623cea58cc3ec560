"""A server with the agent of these cases, as a test sees it. No rule is checked here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from pydantic_ai.messages import ModelMessage

from dex_agents_dex import AgentRuntime
from dex_agents_dex.testing import AgentTestStack, StepHistoryEntry, read_step_history
from tests.binding.conversation import Conversation

from .agent import OBEDIENT
from .histories import faults_of, loaded, results_of


class Talk(Conversation):
    """A session with a Pydantic AI agent, and what it keeps of its tool calls."""

    async def history(self) -> list[ModelMessage]:
        """Every stored message as Pydantic AI reads it, when a strict provider would take them."""
        messages = loaded(await self.messages())
        assert faults_of(messages) == []
        return messages

    async def told(self, turn: int = 1) -> dict[str, str]:
        """What the model was told of each call of a turn that is over: ``<outcome>: <text>``."""
        await self.history()
        return results_of(loaded(m for m in await self.messages() if m.turn_id.number == turn))


@define
class Bench:
    """Opens sessions on one server: the shared one, or the one of a stack that the test may break."""

    speaks: AgentRuntime | AgentTestStack
    state_dir: Path
    new_session_id: Callable[[], str] = field(repr=False)

    def talk(self, flow_type: str = OBEDIENT) -> Talk:
        """A session that is not started yet."""
        return Talk(self.speaks.sessions(flow_type), self.new_session_id(), self.state_dir)

    async def steps(self, talk: Talk) -> list[StepHistoryEntry]:
        """Every Step method of the session that has ended."""
        return list(await read_step_history(self.speaks.server_address, talk.session_id))
