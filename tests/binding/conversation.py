"""One session as a test speaks with it. What is expected of it is the tests' business."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import FileGate, wait_for_agent_snapshot
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentEvent, AgentEventType, AgentInterrupt, AgentMessage, AgentSnapshot
from dex_agents_model.records import WaitingForUserMessage

from .script import Reply, script
from .scripted_runner import gate_of, invocations_in

T = TypeVar("T")


@frozen
class Conversation:
    """A session that follows scripts, its gates, and the log of what its model and tools really did."""

    sessions: AgentSessionClient
    session_id: str
    state_dir: Path

    def gate(self, name: str) -> FileGate:
        return gate_of(self.state_dir, self.session_id, name)

    async def start(self, *replies: Reply) -> None:
        """Start the session with a turn in which the model says ``replies``."""
        await self.sessions.start_session(self.session_id, script(*replies))

    async def say(self, *replies: Reply) -> bool:
        """Queue a message that makes the model say ``replies``."""
        return await self.sessions.send_user_message(self.session_id, script(*replies))

    async def when(self, description: str, probe: Callable[[AgentSnapshot], T | None]) -> T:
        """What ``probe`` finds in a snapshot, once it finds something true."""
        return await wait_for_agent_snapshot(
            self.sessions, self.session_id, probe, description=description
        )

    async def questions(self, count: int = 1) -> tuple[AgentInterrupt, ...]:
        """The pending approvals, once there are ``count``."""

        def pending(snapshot: AgentSnapshot) -> tuple[AgentInterrupt, ...] | None:
            asked = snapshot.pending_interrupts
            return asked if len(asked) == count else None

        return await self.when(f"{count} pending approvals", pending)

    async def end_of_turn(self, number: int = 1) -> AgentSnapshot:
        """The session once its ``number``-th turn has ended and no other runs."""

        def ended(snapshot: AgentSnapshot) -> AgentSnapshot | None:
            state = snapshot.state
            if isinstance(state, WaitingForUserMessage) and state.turn_count == number:
                return snapshot
            return None

        return await self.when(f"the end of turn {number}", ended)

    async def answers(self, number: int = 1) -> list[str | None]:
        """The texts of the latest, ``number``-th turn behind the user's message, once it has ended."""
        await self.end_of_turn(number)
        return await self.texts(number)

    async def texts(self, number: int) -> list[str | None]:
        """The texts that are stored of the ``number``-th turn, without the user's message."""
        _, *others = [m for m in await self.messages() if m.turn_id.number == number]
        return [message.text for message in others]

    async def messages(self) -> list[AgentMessage]:
        """All stored messages, page by page."""
        read: list[AgentMessage] = []
        while True:
            page = await self.sessions.list_agent_messages(
                self.session_id, after_sequence=read[-1].sequence if read else 0
            )
            read.extend(page.messages)
            if not page.has_more:
                return read

    async def events_through(self, last: AgentEventType) -> list[AgentEvent]:
        """The session's events from its first to the first of the type ``last``."""
        events: list[AgentEvent] = []
        token = ""
        while True:
            read = await self.sessions.read_agent_event(
                self.session_id, token, timeout=DEFAULT_TIMEOUT
            )
            assert read is not None, f"no {last} came behind {events}"
            events.append(read.event)
            token = read.resume_token
            if read.event.type is last:
                return events

    async def answer(self, question: AgentInterrupt, **how: Any) -> bool:
        """Answer one question; ``how`` is as `AgentSessionClient.resolve_interrupt` takes it."""
        return await self.sessions.resolve_interrupt(self.session_id, question.interrupt_id, **how)

    def calls(self) -> list[tuple[str, int]]:
        """What really began, in order: ``model`` or a tool's name, and the attempt."""
        log = invocations_in(self.state_dir).read()
        mine = (call for call in log if call.key.startswith(f"{self.session_id}/"))
        return [(call.name, call.attempt) for call in mine]

    def processes(self, name: str) -> list[int]:
        """Which process began each call of one name in this session."""
        log = invocations_in(self.state_dir).read(name=name)
        return [call.pid for call in log if call.key.startswith(f"{self.session_id}/")]

    def keys(self, name: str) -> list[str]:
        """The keys of this session's calls of one name, without the session's ID."""
        log = invocations_in(self.state_dir).read(name=name)
        start = f"{self.session_id}/"
        return [call.key.removeprefix(start) for call in log if call.key.startswith(start)]
