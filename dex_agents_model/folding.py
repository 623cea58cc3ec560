"""From a session's events to what a user interface shows of the running turn. Repeats and lost attempts vanish here."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from .calls import AgentToolCall, FinalCall, ToolCallStatus
from .events import (
    AgentEvent,
    InterruptRaised,
    InterruptResolved,
    ReasoningDelta,
    StepMethod,
    TerminalEvent,
    TextDelta,
    ToolCallDeferred,
    ToolCallFinished,
    ToolCallStarted,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
    told_end,
)
from .ids import InterruptId, ToolCallId, TurnId
from .records import WaitingForUserMessage
from .requests import AgentSnapshot


@frozen
class Attempt:
    """How far the events of one method of one Step execution were read."""

    step_execution_id: str
    method: StepMethod
    attempt: int
    next_index: int


@frozen
class LiveText:
    """What one Step execution has said so far: in most of them a model call.

    ``is_partial``: whoever began with a snapshot came in the middle of it.
    """

    step_execution_id: str
    text: str = ""
    reasoning: str = ""
    is_partial: bool = False


@frozen
class LiveToolCall:
    """A tool call of the turn; ``status`` is None until it is final.

    ``step_execution_id`` is that of the Step which first told of it: the model call that asked for
    it, when nothing was lost; empty when a snapshot did. ``is_stored``: a snapshot has its result, and
    what is still told of the call is older.
    """

    step_execution_id: str
    tool_call_id: ToolCallId
    tool_name: str
    status: ToolCallStatus | None = None
    is_stored: bool = False


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
    settled_interrupts: tuple[InterruptId, ...] = ()
    from_snapshot: bool = False

    @property
    def text(self) -> str:
        """All that the model said in this turn."""
        return "".join(live.text for live in self.texts)


def live_turn_in(snapshot: AgentSnapshot) -> LiveTurn:
    """The latest turn as ``snapshot`` shows it: fold into it what is read from its ``event_token`` on.

    Events that tell what the snapshot holds then change nothing. What the turn had said before, no
    snapshot knows: the text of a model call under way is partial.
    """
    state = snapshot.state
    if state is None or state.turn_count == 0:
        return LiveTurn()
    turn = TurnId.of(state.turn_count)
    if isinstance(state, WaitingForUserMessage):
        return LiveTurn(turn, ended=None if state.last_turn is None else told_end(state.last_turn))
    waiting = tuple(asked.interrupt_id for asked in snapshot.pending_interrupts)
    asked_once = (InterruptId.of(turn, call.tool_call_id) for call in snapshot.tool_calls)
    return LiveTurn(
        turn,
        tool_calls=tuple(map(_stored_call, snapshot.tool_calls)),
        waiting_interrupts=waiting,
        settled_interrupts=tuple(asked for asked in asked_once if asked not in waiting),
        from_snapshot=True,
    )


def _stored_call(record: AgentToolCall) -> LiveToolCall:
    final = isinstance(record, FinalCall)
    status = record.status if final else None
    return LiveToolCall("", record.tool_call_id, record.tool_name, status, is_stored=final)


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
    came_late = known is None and live.from_snapshot and event.index > 0
    expected = event.index if came_late else 0
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
    return _take(live, event, came_late=came_late)


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


def _take(live: LiveTurn, event: AgentEvent, *, came_late: bool) -> LiveTurn:
    step = event.step_execution_id
    match event.payload:
        case TextDelta(text):
            return _say(live, LiveText(step, text, is_partial=came_late))
        case ReasoningDelta(text):
            return _say(live, LiveText(step, reasoning=text, is_partial=came_late))
        case ToolCallDeferred(tool_call_id=call, tool_name=name):
            return _put_call(live, LiveToolCall(step, call, name))
        case ToolCallStarted(tool_call_id=call, tool_name=name):
            return _put_call(live, LiveToolCall(step, call, name))
        case ToolCallFinished(tool_call_id=call, tool_name=name, status=status):
            return _put_call(live, LiveToolCall(step, call, name, status))
        case InterruptRaised(interrupt_id=asked) if asked not in live.settled_interrupts:
            return evolve(live, waiting_interrupts=(*_without(live, asked), asked))
        case InterruptResolved(interrupt_id=asked):
            return _settle(live, asked)
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
    return evolve(said, text=said.text + more.text, reasoning=said.reasoning + more.reasoning)


def _put_call(live: LiveTurn, call: LiveToolCall) -> LiveTurn:
    if all(known.tool_call_id != call.tool_call_id for known in live.tool_calls):
        return evolve(live, tool_calls=(*live.tool_calls, call))
    return evolve(live, tool_calls=tuple(_replaced(known, call) for known in live.tool_calls))


def _replaced(known: LiveToolCall, call: LiveToolCall) -> LiveToolCall:
    if known.tool_call_id != call.tool_call_id or known.is_stored:
        return known
    return evolve(call, step_execution_id=known.step_execution_id)


def _settle(live: LiveTurn, asked: InterruptId) -> LiveTurn:
    settled = tuple(i for i in live.settled_interrupts if i != asked)
    return evolve(
        live,
        waiting_interrupts=_without(live, asked),
        settled_interrupts=(*settled, asked),
    )


def _without(live: LiveTurn, interrupt_id: InterruptId) -> tuple[InterruptId, ...]:
    return tuple(i for i in live.waiting_interrupts if i != interrupt_id)
