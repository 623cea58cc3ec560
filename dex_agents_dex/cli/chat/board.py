"""What a conversation knows of its session right now. It asks nobody and prints nothing."""

from __future__ import annotations

import asyncio

from attrs import Factory, define

from dex_agents_model.ids import InterruptId, TurnId
from dex_agents_model.records import AgentInterrupt
from dex_agents_model.requests import AgentSnapshot

from ..words import counted


@define(eq=False)
class Board:
    """``sent`` and ``answered`` are this conversation's own, which need not be told to its person again.

    ``awaited`` are those of its messages that no turn has taken up yet, as far as is known.
    """

    session_id: str
    running: TurnId | None = None
    doing: str = ""
    queued: int = 0
    questions: tuple[AgentInterrupt, ...] = ()
    sent: set[str] = Factory(set)
    awaited: set[str] = Factory(set)
    answered: set[InterruptId] = Factory(set)
    _changed: asyncio.Event = Factory(asyncio.Event)

    @property
    def is_ready(self) -> bool:
        """Whether the session waits for its person."""
        is_idle = self.running is None and not self.queued and not self.awaited
        return is_idle or bool(self.questions)

    @property
    def status(self) -> str:
        """For the person, in one short line."""
        if self.running is None:
            told = f"{self.session_id}  /help"
        else:
            told = f"{self.session_id}  {self.running}: {self.doing}  Ctrl-C cancels"
        return told + (f"  {counted(self.queued, 'message')} queued" if self.queued else "")

    def catch_up(self, snapshot: AgentSnapshot) -> None:
        """Take everything from what the session says of itself, for no event has told it.

        Otherwise events lead: they may be behind the session, and what they tell is to be shown first.
        """
        state = snapshot.state
        self.running = None if state is None else state.active_turn_id
        self.queued = snapshot.queued_message_count
        self.awaited -= {message.message_id for message in snapshot.messages}
        self.ask(snapshot)

    def ask(self, snapshot: AgentSnapshot) -> None:
        """Take the questions that wait. One that was answered here may still stand there."""
        waiting = snapshot.pending_interrupts
        self.questions = tuple(a for a in waiting if a.interrupt_id not in self.answered)
        self.note_change()

    def drop(self, question: InterruptId) -> None:
        """A question was answered."""
        kept = (asked for asked in self.questions if asked.interrupt_id != question)
        self.questions = tuple(kept)
        self.note_change()

    def note_change(self) -> None:
        self._changed.set()

    async def wait_until_ready(self) -> None:
        """Wait for the session to wait for its person."""
        while not self.is_ready:
            self._changed.clear()
            await self._changed.wait()
