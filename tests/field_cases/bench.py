"""A server with the agent of these cases, as a test sees it and strikes it. No rule is checked here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from pydantic_ai.messages import ModelMessage

from dex_agents_dex import AgentRuntime
from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    AgentTestStack,
    ChildProgram,
    StepHistoryEntry,
    wait_until,
)
from tests.adapter.openai_protocol import refuse_invalid
from tests.adapter.sse_server import Json, Reply
from tests.binding.conversation import Conversation

from .agent import OBEDIENT
from .histories import faults_of, loaded, results_of
from .provider import Provider
from .remote import REMOTE


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

    async def has_begun(self, name: str, count: int = 1) -> None:
        """Wait until ``count`` calls of the model or of one tool have begun, over all Workers."""
        await wait_until(
            f"{count} calls of {name} in {self.session_id}",
            lambda: len(self.keys(name)) >= count,
        )


@define
class SharedStack:
    """An engine and one Worker, for one test after the other. One that kills them starts them again."""

    stack: AgentTestStack
    state_dir: Path
    worker: ChildProgram

    async def start_worker(self) -> None:
        """Start a Worker when none is there."""
        if not self.worker.is_running:
            self.worker = await self.stack.start_worker()


@define
class Bench:
    """Opens sessions on the shared server, and strikes it; each test finds its Worker alive."""

    shared: SharedStack
    runtime: AgentRuntime
    provider: Provider
    new_session_id: Callable[[], str] = field(repr=False)

    @property
    def state_dir(self) -> Path:
        return self.shared.state_dir

    def talk(self, flow_type: str = OBEDIENT) -> Talk:
        """A session that is not started yet."""
        return Talk(self.runtime.sessions(flow_type), self.new_session_id(), self.state_dir)

    async def remote(self, *answers: Reply, flow_type: str = REMOTE) -> Talk:
        """A session whose first turn the provider answers so; its ID is what the user says in it."""
        talk = self.talk(flow_type)
        self.provider.script(talk.session_id, *answers)
        await talk.sessions.start_session(talk.session_id, talk.session_id)
        return talk

    async def go_on(self, talk: Talk, *answers: Reply, turn: int = 2) -> None:
        """One more turn of a remote session, to its end."""
        text = f"{talk.session_id}, turn {turn}"
        self.provider.script(text, *answers)
        await talk.sessions.send_user_message(talk.session_id, text)
        await talk.end_of_turn(turn)

    def asked(self, talk: Talk) -> list[Json]:
        """What the provider was asked in the first turn of a remote session, each a valid request."""
        requests = self.provider.asked(talk.session_id)
        for request in requests:
            refuse_invalid(request["messages"])
        return requests

    async def attempts(self, talk: Talk) -> dict[str, list[int]]:
        """The last attempt of each Step that was executed, by its type, in the order of the ends."""
        found: dict[str, list[int]] = {}
        for entry in await self.steps(talk):
            if entry.event_type in (EXECUTE_COMPLETED_EVENT, EXECUTE_FAILED_EVENT):
                found.setdefault(entry.step_type, []).append(entry.final_attempt)
        return found

    async def steps(self, talk: Talk) -> list[StepHistoryEntry]:
        """Every Step method of the session that has ended."""
        return list(await self.shared.stack.read_step_history(talk.session_id))

    def kill_worker(self) -> None:
        """SIGKILL the only Worker, and wait for its end."""
        self.shared.worker.kill()

    async def start_worker(self) -> None:
        """Start the only Worker again."""
        await self.shared.start_worker()

    async def restart_engine(self) -> None:
        """SIGKILL the engine and start it again on its port and data."""
        await self.shared.stack.restart_engine()
