"""Promises about what is kept: messages, their order, notes of failed turns, usage, and events that do not lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...calls import Rejected
from ...decision import SetUsage
from ...effects import ToolCallsRequested, TurnCompleted, UserSpoke
from ...events import TurnCompletedEvent, TurnFailedEvent
from ...ids import TurnId
from ...records import AgentMessage, AgentUsage, MessageRole, TurnFailed, WaitingForUserMessage
from ..actions import Change, Committed
from ..channels import INTERRUPT_RESOLUTIONS, TOOL_CALL_RESULTS, user_messages_in
from ..ledger import name_of_message
from ..stored import (
    interrupts_in,
    messages_of,
    run_state_in,
    state_in,
    tool_calls_in,
    usage_in,
)


def user_messages_are_taken_once_in_order(change: Change) -> Iterator[str]:
    """What users said waits in the order of their commits, and each message begins one turn, unchanged."""
    cause = change.cause
    if not isinstance(cause, Committed):
        return
    ledger = change.after.ledger
    in_hand = [
        each.on.message for each in change.after.executions if isinstance(each.on, UserSpoke)
    ]
    waiting = [
        name_of_message(each) for each in (*in_hand, *user_messages_in(change.after.channels))
    ]
    owed = list(ledger.said[ledger.taken :])
    if waiting != owed:
        yield f"the messages {waiting} wait to be taken, and {owed} should"
    for name, times in Counter(ledger.said).items():
        if times > 1:
            yield f"the message {name} is accepted {times} times"
    if isinstance(cause.on, UserSpoke):
        begun = [each for each in _added(change) if each.role is MessageRole.USER]
        if [each.text for each in begun] != [cause.on.message.text]:
            yield f"the turn of {cause.on.message.text!r} begins with {[each.text for each in begun]}"


def messages_have_no_gap(change: Change) -> Iterator[str]:
    """Sequences are 1, 2, 3 ... and the state counts them."""
    if not isinstance(change.cause, Committed):
        return
    state = state_in(change.after.records)
    sequences = [message.sequence for message in messages_of(change.after.records)]
    counted = 0 if state is None else state.message_count
    if sequences != list(range(1, counted + 1)):
        yield f"the state counts {counted} messages, and these are stored: {sequences}"


def stored_messages_never_change(change: Change) -> Iterator[str]:
    """History is only added to."""
    if isinstance(change.cause, Committed):
        kept = set(messages_of(change.after.records))
        for message in messages_of(change.before.records):
            if message not in kept:
                yield f"the stored message {message.sequence} changed"


def each_stored_call_has_its_result(change: Change) -> Iterator[str]:
    """Within a turn every stored tool call is followed by exactly one result, and no result stands alone."""
    open_calls: list[tuple[TurnId, str]] = []
    if not isinstance(change.cause, Committed) or not _added(change):
        return
    for message in messages_of(change.after.records):
        if message.tool_call_id is None:
            continue
        call = (message.turn_id, message.tool_call_id)
        if message.role is MessageRole.ASSISTANT:
            open_calls.append(call)
        elif call in open_calls:
            open_calls.remove(call)
        else:
            yield f"the message {message.sequence} is a result of {call[1]}, which has no call before it"
    for turn, tool_call_id in open_calls:
        yield f"{tool_call_id} of {turn} is stored without a result"


def a_completed_turn_stores_its_calls(change: Change) -> Iterator[str]:
    """The messages of a completed turn hold one result for each of its records."""
    if not isinstance(change.cause, Committed) or not isinstance(change.cause.on, TurnCompleted):
        return
    results = Counter(m.tool_call_id for m in _added(change) if m.role is MessageRole.TOOL)
    for record in tool_calls_in(change.before.records):
        if results[record.tool_call_id] != 1:
            yield f"{record.tool_call_id} has {results[record.tool_call_id]} results in its turn's messages"


def a_failed_turn_tells_what_ran(change: Change) -> Iterator[str]:
    """It leaves one note that names each started call, and no note when nothing can have run."""
    state = state_in(change.after.records)
    if not isinstance(change.cause, Committed) or not _ends_a_turn(change):
        return
    if not isinstance(state, WaitingForUserMessage) or not isinstance(state.last_turn, TurnFailed):
        return
    records = tool_calls_in(change.before.records)
    notes = [message.text or "" for message in _added(change)]
    can_have_run = [record for record in records if not isinstance(record, Rejected)]
    if len(notes) != bool(can_have_run):
        yield f"the failed turn leaves {len(notes)} notes; calls that may have run: {len(can_have_run)}"
    for record in records:
        was_started = change.before.ledger.starts_of(record.turn_id, record.tool_call_id) > 0
        line = f"{record.tool_name} {record.arguments}"
        if was_started and not any(line in note for note in notes):
            yield f"{record.tool_call_id} was started, and the failed turn's note does not say so"


def an_ended_turn_leaves_nothing(change: Change) -> Iterator[str]:
    """Between turns there is no record, run state, question, result or answer of an earlier turn."""
    world = change.after
    if not isinstance(change.cause, Committed):
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
            each.name for each in world.executions if getattr(each.step, "turn", None) is not None
        ],
    }
    for what, found in left.items():
        if found:
            yield f"the turn is over and leaves {what}: {found}"


def usage_is_the_sum_of_committed_calls(change: Change) -> Iterator[str]:
    """Each committed model call is counted once."""
    cause = change.cause
    if not isinstance(cause, Committed):
        return
    used = (
        cause.on.usage if isinstance(cause.on, TurnCompleted | ToolCallsRequested) else AgentUsage()
    )
    sets_it = any(isinstance(write, SetUsage) for write in cause.decided.writes)
    expected = usage_in(change.before.records) + used
    if (sets_it or used != AgentUsage()) and usage_in(change.after.records) != expected:
        yield f"the session's usage is {usage_in(change.after.records)}, and should be {expected}"


def the_end_of_a_turn_is_told_when_durable(change: Change) -> Iterator[str]:
    """A terminal event is written by the Step after the commit that ended the turn, and tells its outcome."""
    if not isinstance(change.cause, Committed):
        return
    state = state_in(change.before.records)
    for event in change.cause.decided.events:
        if not isinstance(event.payload, TurnCompletedEvent | TurnFailedEvent):
            continue
        failed = isinstance(event.payload, TurnFailedEvent)
        if not isinstance(state, WaitingForUserMessage):
            yield f"{event.payload.type} of {event.turn} is told before it is durable"
        elif TurnId.of(state.turn_count) != event.turn:
            yield f"{event.payload.type} is told of {event.turn}, but turn {state.turn_count} ended"
        elif isinstance(state.last_turn, TurnFailed) != failed:
            yield f"{event.payload.type} is told of {event.turn}, which ended otherwise: {state.last_turn}"


def _added(change: Change) -> tuple[AgentMessage, ...]:
    known = len(messages_of(change.before.records))
    return messages_of(change.after.records)[known:]


def _ends_a_turn(change: Change) -> bool:
    before, after = state_in(change.before.records), state_in(change.after.records)
    was_running = before is not None and before.active_turn_id is not None
    return was_running and after is not None and after.active_turn_id is None
