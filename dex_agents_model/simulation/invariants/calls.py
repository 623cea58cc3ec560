"""Promises about what runs: one control branch, one result for each call, and no tool that starts when it may not."""

from __future__ import annotations

from collections.abc import Iterator

from ...calls import Failed, FinalCall, ToolCallStatus
from ...decision import ClearTurn, PutToolCall, ToolCallFinished
from ...effects import AttemptsExhausted, BuildUnfinishedTurn, Occurrence, ToolRaised
from ...errors import ContractBroken
from ...events import ToolCallFinished as ToolCallFinishedEvent
from ...policy import EFFECT_RULES
from ...steps import CallStep, RecordTurnCancelled, RunModel
from ..actions import AttemptFailed, Change, Ran
from ..channels import results_in
from ..stored import active_turn_in, cancelled_turn_in, tool_calls_in
from ..world import Execution, World


def no_rule_is_surprised(change: Change) -> Iterator[str]:
    """No rule meets a state that it cannot mean, and no Step fails for ever."""
    match change.cause:
        case AttemptFailed(by=by, failed=failed, retries_for_ever=for_ever):
            if failed.corrupt:
                yield f"{by} met a state that cannot be: {failed.detail}"
            elif for_ever:
                yield f"{by} fails for ever: {failed.error_type}: {failed.detail}"
        case _:
            return


def no_runner_breaks_its_contract(change: Change) -> Iterator[str]:
    """No attempt fails because the runner gave what its contract rules out."""
    match change.cause:
        case AttemptFailed(by=by, failed=failed):
            if failed.error_type == ContractBroken.__name__:
                yield f"the runner broke its contract in {by}: {failed.detail}"
        case _:
            return


def one_control_branch_is_live(change: Change) -> Iterator[str]:
    """Exactly one Step execution drives the session.

    Others belong to tool calls, or to a turn that is over for them: they will end their branch.
    """
    control = [
        each.name
        for each in change.after.executions
        if not isinstance(each.step, CallStep) and not _is_over(each, change.after)
    ]
    if len(control) != 1:
        yield f"{len(control)} control branches are live: {', '.join(control) or 'none'}"


def nothing_of_a_cancelled_turn_starts(change: Change) -> Iterator[str]:
    """Once a cancel is durable, no model call and no tool of its turn is handed out or claimed."""
    cause = change.cause
    if not isinstance(cause, Ran) or cancelled_turn_in(change.before.records) != cause.by.turn:
        return
    for effect in cause.attempt.ran:
        if not isinstance(effect, BuildUnfinishedTurn):
            yield f"{type(effect).__name__} of {effect.turn} starts after the turn was cancelled"


def each_call_has_one_result(change: Change) -> Iterator[str]:
    """A record becomes final once, and tells so exactly once, in the same commit."""
    cause = change.commit(PutToolCall, ToolCallFinished)
    if cause is None:
        return
    decided = cause.decided
    before = {each.tool_call_id: each for each in tool_calls_in(change.before.records)}
    told = [p.record for p in decided.publishes if isinstance(p, ToolCallFinished)]
    ended = [
        w.record
        for w in decided.writes
        if isinstance(w, PutToolCall) and isinstance(w.record, FinalCall)
    ]
    for record in told:
        if told.count(record) > 1 or record not in ended:
            yield f"the result of {record.tool_call_id} is told without its record becoming final"
    for record in ended:
        known = before.get(record.tool_call_id)
        if known is None:
            yield f"{record.tool_call_id} becomes final after its turn was cleared"
        elif isinstance(known, FinalCall):
            yield f"{record.tool_call_id} becomes {record.status}, but it was {known.status} before"
        if record not in told:
            yield f"{record.tool_call_id} becomes final and nobody is told"


def model_is_called_after_all_results(change: Change) -> Iterator[str]:
    """The model goes on only when every record of the turn is final and every result was counted."""
    cause = change.commit()
    if cause is None or not any(isinstance(step, RunModel) for step in cause.decided.next):
        return
    for record in tool_calls_in(change.after.records):
        if not isinstance(record, FinalCall):
            yield f"the model is called while {record.tool_call_id} is {record.status}"
    for result in results_in(change.after.channels):
        yield f"the model is called, but nobody has counted the result of {result.tool_call_id}"


def a_write_that_started_is_not_called_failed(change: Change) -> Iterator[str]:
    """A call that may have changed the world says so; only its tool's own word, that it did not, makes it failed."""
    cause = change.commit(PutToolCall)
    if cause is None or not _leaves_it_open(cause.on):
        return
    for write in cause.decided.writes:
        if not isinstance(write, PutToolCall) or not isinstance(write.record, Failed):
            continue
        record = write.record
        starts = change.before.ledger.starts_of(record.turn_id, record.tool_call_id)
        if starts and EFFECT_RULES[record.effect].may_have_happened:
            yield f"{record.tool_call_id} is {record.effect}, was started, and becomes {record.status}"


def a_write_that_started_is_not_called_cancelled(change: Change) -> Iterator[str]:
    """A cancelled turn says of no call that it did not run when it may have changed the world."""
    cause = change.commit(ClearTurn)
    if cause is None:
        return
    told = [each.payload for each in cause.decided.events]
    undone = {
        each.tool_call_id
        for each in told
        if isinstance(each, ToolCallFinishedEvent) and each.status is ToolCallStatus.CANCELLED
    }
    for record in tool_calls_in(change.before.records):
        starts = change.before.ledger.starts_of(record.turn_id, record.tool_call_id)
        may_matter = starts > 0 and EFFECT_RULES[record.effect].may_have_happened
        if may_matter and record.tool_call_id in undone:
            yield f"{record.tool_call_id} is {record.effect}, was started, and is called cancelled"


def _leaves_it_open(on: Occurrence | None) -> bool:
    """Whether a call that ends like this may have changed the world."""
    return isinstance(on, AttemptsExhausted) or (
        isinstance(on, ToolRaised) and on.may_have_happened
    )


def tools_start_only_when_allowed(change: Change) -> Iterator[str]:
    """A tool starts only for a stored record that is runnable, with the arguments stored in it."""
    if not isinstance(change.cause, Ran):
        return
    for record in change.cause.attempt.started:
        if record not in tool_calls_in(change.before.records):
            yield f"{record.tool_call_id} starts, and its stored record is not what it starts with"


def single_attempt_tools_start_once(change: Change) -> Iterator[str]:
    """A call whose effect allows one attempt starts at most once; one that nothing fences, once for each delivery."""
    cause = change.cause
    if not isinstance(cause, Ran):
        return
    for record in cause.attempt.started:
        count = change.after.ledger.starts_of(record.turn_id, record.tool_call_id)
        is_excused = cause.again and record.call.fenced is False
        if count > EFFECT_RULES[record.effect].attempts == 1 and not is_excused:
            yield f"{record.tool_call_id} is {record.effect} and starts {count} times"


def _is_over(execution: Execution, world: World) -> bool:
    """Whether the turn of ``execution`` is over, as it sees or will see it."""
    turn = getattr(execution.step, "turn", None)
    if turn is None:
        return False
    seen = world.records if execution.snapshot is None else execution.snapshot
    if active_turn_in(seen) != turn:
        return True
    is_cancelled = cancelled_turn_in(seen) == turn
    return is_cancelled and not isinstance(execution.step, RecordTurnCancelled)
