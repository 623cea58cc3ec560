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
    """What one model call has said so far."""

    step_execution_id: str
    text: str = ""
    reasoning: str = ""


@frozen
class LiveToolCall:
    """A tool call of the turn; ``status`` is None until it is final."""

    tool_call_id: ToolCallId
    tool_name: str
    status: ToolCallStatus | None = None


@frozen
class LiveTurn:
    """The latest turn as its events tell it.

    ``texts`` has one entry a model call, in order; with nothing lost, their texts are those of the
    turn's stored messages. ``lost``: events are missing, so read a snapshot. ``ended``: replace
    everything here by the stored messages.
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
    """``live`` after one more event."""
    if live.turn_id is None or event.turn_id.number > live.turn_id.number:
        missed = not isinstance(event.payload, TurnStarted)
        live = LiveTurn(turn_id=event.turn_id, lost=missed)
    elif event.turn_id != live.turn_id:
        return live
    known = next((a for a in live.attempts if _is_of(a, event)), None)
    if known is not None and (event.attempt, event.index) < (known.attempt, known.next_index):
        return live
    is_new = known is None or event.attempt > known.attempt
    expected = 0 if is_new or known is None else known.next_index
    reached = Attempt(event.step_execution_id, event.method, event.attempt, event.index + 1)
    others = tuple(a for a in live.attempts if a is not known)
    live = evolve(live, attempts=(*others, reached), lost=live.lost or event.index > expected)
    if is_new:
        live = _forget_text(live, event.step_execution_id)
    return _take(live, event)


def _is_of(attempt: Attempt, event: AgentEvent) -> bool:
    return (attempt.step_execution_id, attempt.method) == (event.step_execution_id, event.method)


def _forget_text(live: LiveTurn, step_execution_id: str) -> LiveTurn:
    """An attempt that was lost said nothing."""
    return evolve(
        live,
        texts=tuple(t for t in live.texts if t.step_execution_id != step_execution_id),
    )


def _take(live: LiveTurn, event: AgentEvent) -> LiveTurn:
    match event.payload:
        case TextDelta(text):
            return _say(live, event.step_execution_id, text=text)
        case ReasoningDelta(text):
            return _say(live, event.step_execution_id, reasoning=text)
        case ToolCallDeferred(tool_call_id=call, tool_name=name):
            return _put_call(live, LiveToolCall(call, name))
        case ToolCallFinished(tool_call_id=call, tool_name=name, status=status):
            return _put_call(live, LiveToolCall(call, name, status))
        case InterruptRaised(interrupt_id=asked):
            return evolve(live, waiting_interrupts=(*_without(live, asked), asked))
        case InterruptResolved(interrupt_id=asked):
            return evolve(live, waiting_interrupts=_without(live, asked))
        case TurnCompletedEvent() | TurnFailedEvent() | TurnCancelledEvent() as ended:
            return evolve(live, ended=ended, waiting_interrupts=())
        case _:
            return live


def _say(live: LiveTurn, step: str, *, text: str = "", reasoning: str = "") -> LiveTurn:
    last = live.texts[-1] if live.texts else None
    if last is None or last.step_execution_id != step:
        return evolve(live, texts=(*live.texts, LiveText(step, text, reasoning)))
    said = LiveText(step, last.text + text, last.reasoning + reasoning)
    return evolve(live, texts=(*live.texts[:-1], said))


def _put_call(live: LiveTurn, call: LiveToolCall) -> LiveTurn:
    ids = [known.tool_call_id for known in live.tool_calls]
    if call.tool_call_id not in ids:
        return evolve(live, tool_calls=(*live.tool_calls, call))
    position = ids.index(call.tool_call_id)
    calls = (*live.tool_calls[:position], call, *live.tool_calls[position + 1 :])
    return evolve(live, tool_calls=calls)


def _without(live: LiveTurn, interrupt_id: InterruptId) -> tuple[InterruptId, ...]:
    return tuple(i for i in live.waiting_interrupts if i != interrupt_id)
