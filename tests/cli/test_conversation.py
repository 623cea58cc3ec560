"""A conversation whose answer does not get through: its question stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import cast

from attrs import define, field
from rich.console import RenderableType

from dex_agents_dex import AgentSessionClient, EventsLost, SessionBusy
from dex_agents_dex.cli.chat.board import Board
from dex_agents_dex.cli.chat.conversation import Conversation
from dex_agents_dex.cli.chat.screen import Typed
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentInterrupt, AgentSnapshot, AgentUsage
from dex_agents_model.ids import InterruptId, SessionId, ToolCallId, TurnId

TURN, CALL = TurnId("turn-1"), ToolCallId("c")
ASKED = AgentInterrupt(
    interrupt_id=InterruptId.of(TURN, CALL),
    turn_id=TURN,
    tool_call_id=CALL,
    tool_name="pay",
    arguments="{}",
    arguments_digest="sha256:0",
)
SNAPSHOT = AgentSnapshot(
    session_id=SessionId("s"),
    observed_at=datetime(2026, 1, 1, tzinfo=UTC),
    state=None,
    messages=(),
    has_earlier_messages=False,
    pending_interrupts=(ASKED,),
    tool_calls=(),
    usage=AgentUsage(),
    queued_message_count=0,
)


@define
class Sessions:
    """Of each kind of answer the first one fails, and events are lost behind it."""

    taken: list[str] = field(factory=list)
    failed: asyncio.Event = field(factory=asyncio.Event)
    is_seen_again: asyncio.Event = field(factory=asyncio.Event)

    async def get_agent_snapshot(self, session_id: str) -> AgentSnapshot:
        return SNAPSHOT

    async def follow(self, session_id: str, token: str) -> AsyncIterator[EventsLost]:
        while True:
            await self.failed.wait()
            self.failed.clear()
            yield EventsLost()
            self.is_seen_again.set()

    async def resolve_interrupt(self, session_id: str, question: str, **how: object) -> bool:
        self.taken.append(question)
        if len(self.taken) == 1:
            self.failed.set()
            raise SessionBusy("session 's' was busy")
        return True

    async def steer_user_message(self, session_id: str, text: str, *, message_id: str) -> bool:
        self.taken.append(text)
        self.failed.set()
        return False


@define
class Screen:
    """Types its lines, each once the question is seen that the one before did not answer."""

    sessions: Sessions
    lines: Iterator[str]
    is_terminal: bool = False
    on_interrupt: Callable[[], None] = lambda: None
    shown: list[str] = field(factory=list)
    typed: int = 0

    def line(self, text: RenderableType = "") -> None:
        self.shown.append(str(text))

    def flow(self, text: str) -> None: ...

    def end_flow(self) -> None: ...

    def status(self, text: str) -> None: ...

    def ask(self, prompt: str, *, about: str | None = None, prefill: str = "") -> None: ...

    async def read(self) -> Typed | None:
        if self.typed:
            await self.sessions.is_seen_again.wait()
        self.typed += 1
        line = next(self.lines, None)
        return None if line is None else Typed(line)

    async def written(self) -> None: ...


async def converse(*lines: str) -> tuple[list[str], list[str]]:
    """What the session was given, and what the screen showed."""
    sessions = Sessions()
    screen = Screen(sessions, iter(lines))
    client = cast("AgentSessionClient", sessions)
    conversation = Conversation(client, Board("s"), screen, person="ann")
    async with asyncio.timeout(DEFAULT_TIMEOUT.total_seconds()):
        await conversation.run()
    return sessions.taken, screen.shown


async def test_conversation__asks_again_when_an_answer_did_not_get_through() -> None:
    taken, shown = await converse("y", "y")

    assert taken == [ASKED.interrupt_id, ASKED.interrupt_id]
    assert shown[-1] == "  approved"
    assert "  session 's' was busy" in shown


async def test_conversation__asks_again_when_the_message_was_refused_that_was_to_answer() -> None:
    taken, shown = await converse("/steer  stop", "y")

    assert taken == ["stop", ASKED.interrupt_id]
    assert shown[-1] == "  approved"
    assert any("refused the message" in line for line in shown)
