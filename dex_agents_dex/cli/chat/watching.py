"""From what a session tells to what its person sees. Nothing here changes a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import Final, TypeVar

from rich.text import Text

from dex_agents_model.calls import ToolCallStatus
from dex_agents_model.events import (
    AgentEvent,
    InterruptRaised,
    InterruptResolved,
    ReasoningDelta,
    SteeringTaken,
    TextDelta,
    ToolCallDeferred,
    ToolCallFinished,
    ToolCallStarted,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
)
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.records import MessageRole
from dex_agents_model.requests import AgentSnapshot

from ...client import AgentSessionClient, EventsLost
from ...errors import EngineUnavailable, SessionBusy, WorkerFailed
from ..words import (
    ASKING,
    BAD,
    QUIET,
    in_one_line,
    outcome_of,
    safe,
    told_end_of_call,
    told_message,
    told_question,
    told_start_of_call,
)
from .board import Board
from .screen import Screen

T = TypeVar("T")

_LOOK_EVERY: Final = timedelta(seconds=2)
_LOOKS: Final = 10
_BETWEEN_LOOKS: Final = timedelta(milliseconds=50)
_EARLIER_MESSAGES: Final = 10
_PASSING: Final = (EngineUnavailable, SessionBusy, WorkerFailed)


class Watcher:
    """Follows one session and shows it."""

    def __init__(self, sessions: AgentSessionClient, board: Board, screen: Screen) -> None:
        self._sessions = sessions
        self._board = board
        self._screen = screen
        self._saying: tuple[str, int] | None = None
        self._said = ""
        self._shown_question: str | None = None

    async def begin(self) -> str:
        """Show where the session stands; returns the position to follow it from."""
        snapshot = await self._sessions.get_agent_snapshot(self._board.session_id)
        shown = snapshot.messages[-_EARLIER_MESSAGES:]
        if len(shown) < len(snapshot.messages) or snapshot.has_earlier_messages:
            self._screen.line(Text("(`dex-agents messages` prints what was said before)", QUIET))
        for message in shown:
            self._screen.line(told_message(message))
        self._board.catch_up(snapshot)
        if self._board.running is not None:
            self._board.doing = "running"
            self._screen.line(Text(f"  {self._board.running} is running", QUIET))
        self.show_question()
        self.show_status()
        return snapshot.event_token

    async def follow(self, token: str) -> None:
        """Show what the session tells behind ``token``, until it is cancelled."""
        async with aclosing(self._sessions.follow(self._board.session_id, token)) as followed:
            async for each in followed:
                if isinstance(each, EventsLost):
                    await self._catch_up()
                else:
                    await self._take(each.event)
                self.show_status()

    async def keep_looking(self) -> None:
        """See what no event tells: events may be lost, what the session says of itself never is.

        Raises:
            SessionNotFound: it is closed, so that nothing comes any more.
        """
        unseen = 0
        while True:
            await asyncio.sleep(_LOOK_EVERY.total_seconds())
            turn = self._board.running
            if turn is None and not self._board.awaited:
                continue
            await self._require_open()
            snapshot = await self._snapshot()
            if snapshot is None or snapshot.state is None:
                continue
            is_over = turn is None or snapshot.state.active_turn_id != turn
            unseen = unseen + 1 if is_over and self._board.running == turn else 0
            if unseen > 1:
                unseen = 0
                await self._settle(turn)
                self.show_status()

    def show_status(self) -> None:
        self._screen.status(self._board.status)

    def show_question(self) -> None:
        """Ask the first question that waits, once; without one let a message be typed."""
        if not self._board.questions:
            if self._shown_question is not None:
                self._shown_question = None
                self._screen.ask("> ")
            return
        asked = self._board.questions[0]
        if asked.interrupt_id == self._shown_question:
            return
        self._shown_question = asked.interrupt_id
        self._screen.line(told_question(asked))
        self._screen.line(Text("  y: run it   n [WHY]: do not   e: edit its arguments", QUIET))
        self._screen.ask(f"{in_one_line(asked.tool_name)}? y/n/e > ", about=asked.interrupt_id)

    def ask_again(self) -> None:
        """Show the question anew, as after an edit that was given up."""
        self._shown_question = None
        self.show_question()

    async def _take(self, event: AgentEvent) -> None:
        match event.payload:
            case TextDelta(text):
                self._say(event, text)
            case ReasoningDelta():
                self._board.doing = "thinking"
            case TurnStarted(message_id=message_id):
                await self._begin_turn(event.turn_id, message_id)
            case ToolCallDeferred(tool_call_id=call, tool_name=name, requires_approval=False):
                await self._tell_call(call, name)
            case ToolCallStarted(tool_name=name):
                self._board.doing = f"running {name}"
                if event.attempt > 1:
                    self._quietly(f"  … {name} starts again, attempt {event.attempt}")
            case ToolCallFinished(tool_call_id=call, tool_name=name, status=status):
                await self._tell_end_of_call(event.turn_id, call, name, status)
            case InterruptRaised():
                self._board.doing = "waiting for approval"
                await self._take_questions()
            case InterruptResolved(interrupt_id=asked, approved=approved, rejection_message=why):
                if asked not in self._board.answered:
                    self._quietly(f"  {'approved' if approved else f'not approved: {why}'}")
                self._board.drop(asked)
                self.show_question()
            case SteeringTaken():
                self._quietly("  the turn goes on with what you said")
            case TurnCompletedEvent() | TurnFailedEvent() | TurnCancelledEvent():
                await self._end_turn(event)
            case _:
                pass

    def _say(self, event: AgentEvent, text: str) -> None:
        source = (event.step_execution_id, event.attempt)
        if self._saying != source:
            self._screen.end_flow()
            self._said = ""
            if self._saying is not None and self._saying[0] == event.step_execution_id:
                self._quietly("  … the model call was cut off and starts again")
        self._saying = source
        self._board.doing = "answering"
        self._said += safe(text)
        self._screen.flow(safe(text))

    async def _begin_turn(self, turn: TurnId, message_id: str) -> None:
        def begun(snapshot: AgentSnapshot) -> AgentSnapshot | None:
            state = snapshot.state
            return snapshot if state is not None and state.turn_count >= turn.number else None

        self._board.running = turn
        self._board.doing = "thinking"
        self._board.awaited.discard(message_id)
        snapshot = await self._see(begun)
        if snapshot is None:
            return
        self._board.queued = snapshot.queued_message_count
        if message_id not in self._board.sent:
            for message in snapshot.messages:
                if message.message_id == message_id and message.role is MessageRole.USER:
                    self._screen.line(told_message(message))

    async def _end_turn(self, event: AgentEvent) -> None:
        match event.payload:
            case TurnFailedEvent(error):
                self._screen.line(Text(f"  the turn failed: {in_one_line(error)}", BAD))
            case TurnCancelledEvent():
                self._screen.line(Text("  the turn was cancelled", ASKING))
            case _:
                pass
        await self._close_turn(event.turn_id)

    async def _close_turn(self, turn: TurnId) -> None:
        self._screen.end_flow()
        snapshot = await self._snapshot()
        if snapshot is not None:
            self._board.queued = snapshot.queued_message_count
            self._show_unsaid_answer(snapshot, turn)
        self._saying, self._said = None, ""
        self._screen.line()
        self._board.running = None
        self._board.note_change()

    def _show_unsaid_answer(self, snapshot: AgentSnapshot, turn: TurnId) -> None:
        """The stored answer counts; it is shown where the events have not told all of it."""
        own = [message for message in snapshot.messages if message.turn_id == turn]
        if not own or own[-1].role is not MessageRole.ASSISTANT:
            return
        if safe(own[-1].text or "").strip() != self._said.strip():
            self._screen.line(told_message(own[-1]))

    async def _tell_call(self, call: ToolCallId, name: str) -> None:
        def arguments(snapshot: AgentSnapshot) -> str | None:
            return next((c.arguments for c in snapshot.tool_calls if c.tool_call_id == call), None)

        self._board.doing = f"about to run {name}"
        self._screen.line(told_start_of_call(name, await self._see(arguments) or ""))

    async def _tell_end_of_call(
        self, turn: TurnId, call: ToolCallId, name: str, status: ToolCallStatus
    ) -> None:
        outcome = None
        if status is not ToolCallStatus.CANCELLED:
            outcome = await self._see(lambda snapshot: _outcome(snapshot, turn, call))
        self._screen.line(told_end_of_call(name, status, outcome or ""))
        self._board.doing = "thinking"

    async def _settle(self, turn: TurnId | None) -> None:
        """No event told what became of ``turn``, or of a message."""
        if turn is not None:
            await self._close_turn(turn)
        await self._catch_up()
        if self._board.running is None and not self._board.queued:
            self._board.awaited.clear()  # taken long ago, or withdrawn
            self._board.note_change()

    async def _catch_up(self) -> None:
        snapshot = await self._snapshot()
        if snapshot is not None:
            self._board.catch_up(snapshot)
            self.show_question()

    async def _take_questions(self) -> None:
        snapshot = await self._snapshot()
        if snapshot is not None:
            self._board.ask(snapshot)
            self.show_question()

    async def _see(self, find: Callable[[AgentSnapshot], T | None]) -> T | None:
        """What ``find`` finds; an event runs ahead of its Step's commit, so it looks for a moment."""
        for _ in range(_LOOKS):
            snapshot = await self._snapshot()
            found = None if snapshot is None else find(snapshot)
            if found is not None:
                return found
            await asyncio.sleep(_BETWEEN_LOOKS.total_seconds())
        return None

    async def _require_open(self) -> None:
        with suppress(*_PASSING):
            await self._sessions.require_open(self._board.session_id)

    async def _snapshot(self) -> AgentSnapshot | None:
        try:
            return await self._sessions.get_agent_snapshot(self._board.session_id)
        except _PASSING:
            return None  # it is best effort; whoever needs it looks again

    def _quietly(self, text: str) -> None:
        self._screen.line(Text(text, QUIET))


def _outcome(snapshot: AgentSnapshot, turn: TurnId, call: ToolCallId) -> str | None:
    for record in snapshot.tool_calls:
        if record.tool_call_id == call and record.turn_id == turn:
            return outcome_of(record) or None
    for message in snapshot.messages:
        is_result = message.role is MessageRole.TOOL and message.tool_call_id == call
        if is_result and message.turn_id == turn:
            return message.text
    return None
