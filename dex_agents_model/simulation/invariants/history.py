"""Promises about what is kept: messages, their order, notes of failed turns, usage, and events that do not lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...calls import AwaitingApproval, Rejected
from ...decision import (
    AppendMessages,
    AppendUserMessage,
    DropMessages,
    Publish,
    SetState,
    SetUsage,
    SteeringQueued,
    UserMessageQueued,
)
from ...effects import (
    HistorySummarized,
    Occurrence,
    ToolCallsRequested,
    TurnCompleted,
    TurnGivenUp,
    UserSpoke,
    UserSteered,
)
from ...events import TurnCancelledEvent, TurnCompletedEvent, TurnFailedEvent
from ...ids import TurnId
from ...policy import EFFECT_RULES
from ...records import (
    AgentMessage,
    AgentUsage,
    MessageRole,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from ...requests import WithdrawUserMessage
from ...steps import CallStep, CompactHistory, ResumeTurn, RunModel
from ..actions import Change
from ..channels import INTERRUPT_RESOLUTIONS, TOOL_CALL_RESULTS, steering_in, user_messages_in
from ..ledger import name_of_message
from ..stored import (
    active_turn_in,
    interrupts_in,
    messages_in,
    run_state_in,
    state_in,
    tool_calls_in,
    usage_in,
)
from ..world import Phase

_RUNNING_STEPS: Final = RunModel | CompactHistory | ResumeTurn | CallStep
_SPENDING: Final = TurnCompleted | ToolCallsRequested | TurnGivenUp | HistorySummarized
_OUTCOMES: Final[Mapping[type[Any], type[Any]]] = {
    TurnCompletedEvent: TurnSucceeded,
    TurnFailedEvent: TurnFailed,
    TurnCancelledEvent: TurnCancelled,
}


def user_messages_are_taken_once_in_order(change: Change) -> Iterator[str]:
    """What users said waits in the order of its commits, and begins or steers one turn, unchanged."""
    cause = change.commit()
    if cause is None:
        return
    world, ledger = change.after, change.after.ledger
    spoken = [each.on.message for each in world.executions if isinstance(each.on, UserSpoke)]
    queue = [name_of_message(each) for each in (*spoken, *user_messages_in(world.channels))]
    if queue != list(ledger.queued):
        yield f"the messages {queue} wait to be taken, and {list(ledger.queued)} should"
    steered = [each.on.steering for each in world.executions if isinstance(each.on, UserSteered)]
    steers = [name_of_message(e.message) for e in (*steered, *steering_in(world.channels))]
    if steers != list(ledger.steering):
        yield f"the messages {steers} wait to steer, and {list(ledger.steering)} should"
    for publish in cause.decided.publishes:
        name = _name_of_accepted(publish)
        if name is not None and name in change.before.ledger.accepted:
            yield f"the message {name} is accepted twice"
    if isinstance(cause.by, WithdrawUserMessage):
        withdrawn = cause.by.message_id
        if withdrawn in ledger.queued and cause.decided.reply is True:
            yield f"the message {withdrawn} was withdrawn and waits still"
    text = _text_that_begins(cause.on)
    begun = [each.text for each in _added(change) if each.role is MessageRole.USER]
    if text is not None and begun != [text]:
        yield f"the turn of {text!r} begins with {begun}"


def steering_goes_ahead_of_the_queue(change: Change) -> Iterator[str]:
    """No queued message begins a turn while one waits that would have steered."""
    before = {id(each) for each in change.before.executions}
    for execution in change.after.executions:
        if id(execution) in before or not isinstance(execution.on, UserSpoke):
            continue
        if execution.phase is Phase.READY and steering_in(change.after.channels):
            yield f"{execution.on.message.text!r} is taken while a steering message waits"


def steering_enters_history_once(change: Change) -> Iterator[str]:
    """However a turn ends, what steered it is stored with it, once."""
    if not _ends_a_turn(change):
        return
    stored = Counter(each.text for each in _added(change) if each.role is MessageRole.USER)
    for text, times in Counter(change.before.ledger.heard).items():
        if stored[text] != times:
            yield f"{text!r} steered the turn {times} times and is stored {stored[text]} times"


def messages_have_no_gap(change: Change) -> Iterator[str]:
    """Sequences are 1, 2, 3 ... and the state counts them; those dropped behind a summary were the first."""
    if change.commit(SetState, AppendMessages, AppendUserMessage, DropMessages) is None:
        return
    state = state_in(change.after.records)
    sequences = [message.sequence for message in messages_in(change.after.records)]
    first = 1 if state is None else state.history.first_sequence
    counted = 0 if state is None else state.message_count
    if sequences != list(range(first, counted + 1)):
        yield f"the state counts {counted} messages from {first} on, and these are stored: {sequences}"


def stored_messages_never_change(change: Change) -> Iterator[str]:
    """History is only added to; what is dropped, a summary stands for."""
    if change.commit(AppendMessages, AppendUserMessage, DropMessages) is None:
        return
    state = state_in(change.after.records)
    first = 1 if state is None else state.history.first_sequence
    covered = 0 if state is None else state.history.summarised_through
    kept = set(messages_in(change.after.records))
    for message in messages_in(change.before.records):
        dropped = message.sequence < first and message.sequence <= covered
        if message not in kept and not dropped:
            yield f"the stored message {message.sequence} changed"


def each_stored_call_has_its_result(change: Change) -> Iterator[str]:
    """Within a turn every stored tool call is followed by exactly one result, and no result stands alone.

    Only a runner whose messages name their calls can be held to it: an item is its own affair.
    """
    open_calls: list[tuple[TurnId, str]] = []
    state = state_in(change.after.records)
    if change.commit(AppendMessages) is None or state is None:
        return
    messages = messages_in(change.after.records)
    naming = {m.turn_id for m in messages if m.role is MessageRole.ASSISTANT and m.tool_call_id}
    for message in messages:
        if message.tool_call_id is None or message.sequence <= state.history.summarised_through:
            continue
        call = (message.turn_id, message.tool_call_id)
        if message.role is MessageRole.ASSISTANT:
            open_calls.append(call)
        elif call in open_calls:
            open_calls.remove(call)
        elif message.turn_id in naming:
            yield f"the message {message.sequence} is a result of {call[1]}, which has no call before it"
    for turn, tool_call_id in open_calls:
        yield f"{tool_call_id} of {turn} is stored without a result"


def a_completed_turn_stores_its_calls(change: Change) -> Iterator[str]:
    """The messages of a completed turn hold one result for each of its records."""
    cause = change.commit()
    if cause is None or not isinstance(cause.on, TurnCompleted):
        return
    results = Counter(m.tool_call_id for m in _added(change) if m.role is MessageRole.TOOL)
    for record in tool_calls_in(change.before.records):
        if results[record.tool_call_id] != 1:
            yield f"{record.tool_call_id} has {results[record.tool_call_id]} results in its turn's messages"


def a_turn_without_answer_tells_what_ran(change: Change) -> Iterator[str]:
    """A failed or cancelled turn keeps its exact items, or leaves one note when a tool may have changed something."""
    if not _ends_without_answer(change):
        return
    records = tool_calls_in(change.before.records)
    added = _added(change)
    heard = change.before.ledger.heard
    results = Counter(each.tool_call_id for each in added if each.role is MessageRole.TOOL)
    notes = [
        each.text or ""
        for each in added
        if each.role is MessageRole.USER and each.text not in heard
    ]
    kept = bool(results)
    if len(notes) > 1 or (kept and notes):
        yield f"the turn leaves {len(notes)} notes and {len(added)} messages"
    if notes and all(isinstance(each, Rejected | AwaitingApproval) for each in records):
        yield f"the turn leaves a note though nothing can have run: {notes[0]!r}"
    for record in records:
        if kept and results[record.tool_call_id] != 1:
            yield f"{record.tool_call_id} has {results[record.tool_call_id]} results in what is kept"
        starts = change.before.ledger.starts_of(record.turn_id, record.tool_call_id)
        may_matter = starts > 0 and EFFECT_RULES[record.effect].may_have_happened
        line = f"{record.tool_name} {record.arguments}"
        if may_matter and not kept and not any(line in note for note in notes):
            yield f"{record.tool_call_id} was started, and the turn's note does not say so"


def an_ended_turn_leaves_nothing(change: Change) -> Iterator[str]:
    """Between turns there is no record, run state, question, result or answer of an earlier turn."""
    world = change.after
    if change.commit() is None:
        return
    if not isinstance(state_in(world.records), WaitingForUserMessage):
        return
    left = {
        "tool call records": tool_calls_in(world.records),
        "run state": run_state_in(world.records),
        "questions": interrupts_in(world.records),
        "results and answers": [
            name
            for name, _ in world.channels
            if name == TOOL_CALL_RESULTS or name.startswith(INTERRUPT_RESOLUTIONS)
        ],
        "Steps of the turn": [
            each.name for each in world.executions if isinstance(each.step, _RUNNING_STEPS)
        ],
    }
    for what, found in left.items():
        if found:
            yield f"the turn is over and leaves {what}: {found}"


def usage_is_the_sum_of_committed_calls(change: Change) -> Iterator[str]:
    """Each committed model call is counted once."""
    cause = change.commit()
    if cause is None:
        return
    spent = cause.on.usage if isinstance(cause.on, _SPENDING) else None
    if spent is None and change.commit(SetUsage) is None:
        return
    expected = usage_in(change.before.records) + (spent or AgentUsage())
    if usage_in(change.after.records) != expected:
        yield f"the session's usage is {usage_in(change.after.records)}, and should be {expected}"


def the_end_of_a_turn_is_told_when_durable(change: Change) -> Iterator[str]:
    """A terminal event is written by the Step after the commit that ended the turn, and tells its outcome."""
    cause = change.commit()
    if cause is None or not cause.decided.events:
        return
    state = state_in(change.before.records)
    for event in cause.decided.events:
        outcome = _OUTCOMES.get(type(event.payload))
        if outcome is None:
            continue
        if not isinstance(state, WaitingForUserMessage):
            yield f"{event.payload.type} of {event.turn} is told before it is durable"
        elif TurnId.of(state.turn_count) != event.turn:
            yield f"{event.payload.type} is told of {event.turn}, but turn {state.turn_count} ended"
        elif not isinstance(state.last_turn, outcome):
            yield f"{event.payload.type} is told of {event.turn}, which ended otherwise: {state.last_turn}"


def _added(change: Change) -> tuple[AgentMessage, ...]:
    state = state_in(change.before.records)
    known = 0 if state is None else state.message_count
    return tuple(m for m in messages_in(change.after.records) if m.sequence > known)


def _ends_a_turn(change: Change) -> bool:
    return (
        change.commit(SetState) is not None
        and active_turn_in(change.before.records) is not None
        and active_turn_in(change.after.records) is None
    )


def _ends_without_answer(change: Change) -> bool:
    state = state_in(change.after.records)
    return (
        _ends_a_turn(change)
        and isinstance(state, WaitingForUserMessage)
        and isinstance(state.last_turn, TurnFailed | TurnCancelled)
    )


def _name_of_accepted(publish: Publish) -> str | None:
    match publish:
        case UserMessageQueued(message):
            return name_of_message(message)
        case SteeringQueued(steering):
            return name_of_message(steering.message)
        case _:
            return None


def _text_that_begins(on: Occurrence | None) -> str | None:
    match on:
        case UserSpoke(message):
            return message.text
        case UserSteered(steering):
            return steering.message.text
        case _:
            return None
