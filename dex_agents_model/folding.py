"""From a session's events to what a user interface shows of the running turn. Repeats and lost attempts vanish here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import evolve, frozen

from .calls import ToolCallStatus
from .events import (
    AgentEvent,
    InterruptRaised,
    InterruptResolved,
    ReasoningDelta,
    StepMethod,
    TextDelta,
    ToolCallDeferred,
    ToolCallFinished,
    ToolCallStarted,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
)
from .ids import InterruptId, ToolCallId, TurnId

TerminalEvent: TypeAlias = TurnCompletedEvent | TurnFailedEvent | TurnCancelledEvent


@frozen
class Attempt:
    """How far the events of one method of one Step execution were read."""

    step_execution_id: str
    method: StepMethod
    attempt: int
    next_index: int


@frozen
class LiveText:
    """What one Step execution has said so far: in most of them a model call."""

    step_execution_id: str
    text: str = ""
    reasoning: str = ""


@frozen
class LiveToolCall:
    """A tool call of the turn; ``status`` is None until it is final.

    ``step_execution_id`` is that of the Step which first told of it: the model call that asked for
    it, when nothing was lost.
    """

    step_execution_id: str
    tool_call_id: ToolCallId
    tool_name: str
    status: ToolCallStatus | None = None


@frozen
class LiveTurn:
    """The latest turn as its events tell it.

    ``texts`` has one entry a Step execution that spoke, in the order in which they began to; with
    nothing lost, those of the model calls are the texts of the turn's stored messages. ``lost``:
    events are missing, so read a snapshot. ``ended``: replace everything here by the stored
    messages; what a Step of the turn still tells changes nothing.
    """

    turn_id: TurnId | None = None
    texts: tuple[LiveText, ...] = ()
    tool_calls: tuple[LiveToolCall, ...] = ()
    waiting_interrupts: tuple[InterruptId, ...] = ()
    ended: TerminalEvent | None = None
    lost: bool = False
    attempts: tuple[Attempt, ...] = ()

    @property
    def text(self) -> str:
        """All that the model said in this turn."""
        return "".join(live.text for live in self.texts)


def fold_events(events: Iterable[AgentEvent], live: LiveTurn = LiveTurn()) -> LiveTurn:
    """``live`` after ``events``, of which it takes each once and of each Step execution the last attempt."""
    for event in events:
        live = fold_event(live, event)
    return live


def fold_event(live: LiveTurn, event: AgentEvent) -> LiveTurn:
    """``live`` after one more event; ``live`` itself, the same object, when the event says nothing new."""
    if live.turn_id is None or event.turn_id.number > live.turn_id.number:
        live = LiveTurn(turn_id=event.turn_id, lost=not _follows(live, event))
    elif event.turn_id != live.turn_id or live.ended is not None:
        return live
    known = next((a for a in live.attempts if _is_of(a, event)), None)
    expected = 0
    if known is not None:
        if (event.attempt, event.index) < (known.attempt, known.next_index):
            return live
        if event.attempt > known.attempt:
            live = _forget(live, event.step_execution_id)
        else:
            expected = known.next_index
    reached = Attempt(event.step_execution_id, event.method, event.attempt, event.index + 1)
    others = tuple(a for a in live.attempts if a is not known)
    live = evolve(live, attempts=(*others, reached), lost=live.lost or event.index > expected)
    return _take(live, event)


def _follows(live: LiveTurn, event: AgentEvent) -> bool:
    """Whether nothing is missing between ``live`` and the first event of a later turn."""
    if not isinstance(event.payload, TurnStarted):
        return False
    return live.turn_id is None or (
        live.ended is not None and event.turn_id.number == live.turn_id.number + 1
    )


def _is_of(attempt: Attempt, event: AgentEvent) -> bool:
    return (attempt.step_execution_id, attempt.method) == (event.step_execution_id, event.method)


def _forget(live: LiveTurn, step_execution_id: str) -> LiveTurn:
    """An attempt that was lost said nothing, and asked for no tool."""
    return evolve(
        live,
        texts=tuple(t for t in live.texts if t.step_execution_id != step_execution_id),
        tool_calls=tuple(c for c in live.tool_calls if c.step_execution_id != step_execution_id),
    )


def _take(live: LiveTurn, event: AgentEvent) -> LiveTurn:
    step = event.step_execution_id
    match event.payload:
        case TextDelta(text):
            return _say(live, LiveText(step, text))
        case ReasoningDelta(text):
            return _say(live, LiveText(step, reasoning=text))
        case ToolCallDeferred(tool_call_id=call, tool_name=name):
            return _put_call(live, LiveToolCall(step, call, name))
        case ToolCallStarted(tool_call_id=call, tool_name=name):
            return _put_call(live, LiveToolCall(step, call, name))
        case ToolCallFinished(tool_call_id=call, tool_name=name, status=status):
            return _put_call(live, LiveToolCall(step, call, name, status))
        case InterruptRaised(interrupt_id=asked):
            return evolve(live, waiting_interrupts=(*_without(live, asked), asked))
        case InterruptResolved(interrupt_id=asked):
            return evolve(live, waiting_interrupts=_without(live, asked))
        case TurnCompletedEvent() | TurnFailedEvent() | TurnCancelledEvent() as ended:
            return evolve(live, ended=ended, waiting_interrupts=())
        case _:
            return live


def _say(live: LiveTurn, more: LiveText) -> LiveTurn:
    if all(said.step_execution_id != more.step_execution_id for said in live.texts):
        return evolve(live, texts=(*live.texts, more))
    return evolve(live, texts=tuple(_continued(said, more) for said in live.texts))


def _continued(said: LiveText, more: LiveText) -> LiveText:
    if said.step_execution_id != more.step_execution_id:
        return said
    return LiveText(said.step_execution_id, said.text + more.text, said.reasoning + more.reasoning)


def _put_call(live: LiveTurn, call: LiveToolCall) -> LiveTurn:
    if all(known.tool_call_id != call.tool_call_id for known in live.tool_calls):
        return evolve(live, tool_calls=(*live.tool_calls, call))
    return evolve(live, tool_calls=tuple(_replaced(known, call) for known in live.tool_calls))


def _replaced(known: LiveToolCall, call: LiveToolCall) -> LiveToolCall:
    if known.tool_call_id != call.tool_call_id:
        return known
    return evolve(call, step_execution_id=known.step_execution_id)


def _without(live: LiveTurn, interrupt_id: InterruptId) -> tuple[InterruptId, ...]:
    return tuple(i for i in live.waiting_interrupts if i != interrupt_id)
