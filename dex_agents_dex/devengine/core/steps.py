"""A Step execution from its start over its attempts to its failure.

What a successful result does to the run lives in `results`; how a run ends, in `closing`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import history, retries, rows
from dex_agents_dex.devengine.core.closing import fail_flow
from dex_agents_dex.devengine.core.errors import INTERNAL_STATUS
from dex_agents_dex.devengine.core.instants import set_instant
from dex_agents_dex.devengine.core.invocations import (
    add_attempt,
    oversize,
    step_request,
    step_snapshot,
)
from dex_agents_dex.devengine.core.state import (
    TIMEOUT_STEP_TYPE,
    Offer,
    Phase,
    Progress,
    Run,
    StepExecution,
)
from dex_agents_dex.devengine.core.transaction import Need, TimerKey, TimerKind, Transaction
from dex_agents_dex.devengine.core.values import own_copy, take_in

# The Worker stops at the deadline by itself; its own report, a moment later, is the better one.
_DEADLINE_GRACE = timedelta(milliseconds=500)


def start_step(
    tx: Transaction,
    run: Run,
    movement: pb.StepMovement,
    source: str,
    *,
    recovery: pb.RecoveryErrorInfo | None = None,
    delay: timedelta | None = None,
) -> None:
    """Queue a new execution; its first method begins when the transaction settles."""
    step_type = movement.step_type
    number = run.counters.get(step_type, 0) + 1
    run.counters[step_type] = number
    tx.write(rows.PutCounter(run.key, step_type, number))
    has_input = step_type != TIMEOUT_STEP_TYPE
    step = StepExecution(
        key=run.next_step_key,
        step_type=step_type,
        number=number,
        source=source,
        input=take_in(tx, run, movement.step_input) if has_input else None,
        options=own_copy(movement.step_options),
        recovery=recovery,
        phase=Phase.EXECUTE if movement.step_options.skip_wait_for else Phase.WAIT_FOR,
    )
    run.next_step_key += 1
    run.steps[step.key] = step
    if delay:
        back_off(tx, run, step, tx.now + delay)
    else:
        begin_method(tx, run, step, step.phase)


def begin_method(tx: Transaction, run: Run, step: StepExecution, phase: Phase) -> None:
    """Make `phase`'s method the current one, at its first attempt."""
    step.phase = phase
    step.progress = Progress.NEW
    step.attempt = 1
    step.first_attempt_at = step.not_before = step.heartbeat = None
    step.snapshot = None
    tx.touch_step(run, step)
    tx.beginning.append((run, step))


def offer_step(tx: Transaction, run: Run, step: StepExecution) -> None:
    """Let Workers take the current attempt. Its locks are held."""
    if step.snapshot is None:
        missing = run.attributes.missing(step.attribute_loads)
        if missing:
            step.progress = Progress.LOADING
            tx.needs.append(Need(run, step, missing))
            return
        step.snapshot = step_snapshot(run, step)
        is_measured = False
    else:
        is_measured = step.heartbeat is None
    if not is_measured and oversize_of_step(tx, run, step) is not None:
        # Failing here could start Steps that fail here, without end; the timer breaks it.
        step.progress = Progress.UNSENDABLE
        tx.timers[_timer(run, step)] = tx.now
        return
    step.progress = Progress.OFFERED
    step.offer = Offer(run, step)
    tx.offers.append(step.offer)
    if tx.settings.unclaimed_task_timeout is not None:
        tx.timers[_timer(run, step)] = tx.now + tx.settings.unclaimed_task_timeout


def hand_out_step(tx: Transaction, run: Run, step: StepExecution) -> pb.PollWorkerTask:
    """The frame to send once `tx` is durable; from then on the attempt counts as started."""
    assert step.snapshot is not None
    step.progress = Progress.HANDED_OUT
    step.task_id = tx.new_id()
    step.offer = None
    step.not_before = None
    if step.first_attempt_at is None:
        step.first_attempt_at = tx.now
    step.last_beat_at = tx.now
    step.deadline = tx.now + method_timeout(step)
    task = step.snapshot
    task.task_id = step.task_id
    set_instant(task.deadline, step.deadline)
    add_attempt(step_request(task).context, step)
    tx.touch_step(run, step)
    tx.timers[_timer(run, step)] = attempt_due(step)
    return task


def oversize_of_step(tx: Transaction, run: Run, step: StepExecution) -> str | None:
    """Why the snapshot cannot be sent; None when it can."""
    assert step.snapshot is not None
    add_attempt(step_request(step.snapshot).context, step)
    subject = f"{'wait_for' if step.phase is Phase.WAIT_FOR else 'execute'} of {step.id}"
    return oversize(run, step.snapshot, subject, tx.settings.frame_limit_bytes)


def take_back(tx: Transaction, run: Run, step: StepExecution) -> None:
    """The task surely never started: offer the same attempt again."""
    step.task_id = ""
    tx.touch_step(run, step)
    tx.timers[_timer(run, step)] = None
    offer_step(tx, run, step)


def fail_attempt(
    tx: Transaction, run: Run, step: StepExecution, error: pb.WorkerErrorResponse
) -> None:
    """End the current attempt; retry it later, or take the route of a method that is spent."""
    _end_attempt(tx, run, step)
    requested = (
        timedelta(seconds=error.retry_after_seconds) if error.retry_after_seconds > 0 else None
    )
    if step.first_attempt_at is None:
        step.first_attempt_at = tx.now  # no Worker ever had it; its time counts all the same
    delay = retries.delay_before_retry(
        step.retry_policy, step.attempt, step.first_attempt_at, tx.now, requested
    )
    if delay is not None:
        step.attempt += 1
        back_off(tx, run, step, tx.now + delay)
        return
    history.record_step_failed(tx, run, step, error)
    if step.phase is Phase.WAIT_FOR:
        _spend_wait_for(tx, run, step, error)
    else:
        _spend_execute(tx, run, step, error)


def cancel_step(tx: Transaction, run: Run, step: StepExecution) -> None:
    """End an execution without result or recovery; what it still reports is dropped."""
    if step.task_id:
        tx.cancelled_task_ids.append(step.task_id)
    remove_step(tx, run, step)


def remove_step(tx: Transaction, run: Run, step: StepExecution) -> None:
    _end_attempt(tx, run, step)
    del run.steps[step.key]
    run.waiting.pop(step.key, None)
    run.locks.release(step.key)
    tx.drop_step(run, step)
    tx.changed[run.key] = run


def back_off(tx: Transaction, run: Run, step: StepExecution, until: datetime) -> None:
    step.progress = Progress.BACKOFF
    step.not_before = until
    tx.touch_step(run, step)
    tx.timers[_timer(run, step)] = until


def method_timeout(step: StepExecution) -> timedelta:
    seconds = (
        step.options.wait_for_timeout_seconds
        if step.phase is Phase.WAIT_FOR
        else step.options.execute_timeout_seconds
    )
    return timedelta(seconds=seconds) if seconds else retries.DEFAULT_METHOD_TIMEOUT


def heartbeat_timeout(step: StepExecution) -> timedelta:
    seconds = step.options.heartbeat_timeout_seconds
    return timedelta(seconds=seconds) if seconds else retries.DEFAULT_HEARTBEAT_TIMEOUT


def attempt_due(step: StepExecution) -> datetime:
    """When a handed-out attempt is over though its Worker said nothing."""
    assert step.deadline is not None
    assert step.last_beat_at is not None
    return min(step.deadline + _DEADLINE_GRACE, step.last_beat_at + heartbeat_timeout(step))


def engine_error(
    error_type: str, detail: str, status: int = INTERNAL_STATUS
) -> pb.WorkerErrorResponse:
    """An attempt's failure that no Worker reported."""
    return pb.WorkerErrorResponse(
        detail=detail, error_type=f"devengine.{error_type}", grpc_status=status
    )


def _timer(run: Run, step: StepExecution) -> TimerKey:
    return TimerKey(TimerKind.STEP, run.key, step.key)


def _end_attempt(tx: Transaction, run: Run, step: StepExecution) -> None:
    step.task_id = ""
    if step.offer is not None:
        step.offer.is_open = False
        step.offer = None
    tx.timers[_timer(run, step)] = None


def _spend_wait_for(
    tx: Transaction, run: Run, step: StepExecution, error: pb.WorkerErrorResponse
) -> None:
    policy = step.options.wait_for_failure_policy
    if policy != pb.WAIT_FOR_METHOD_FAILURE_POLICY_PROCEED_ON_FAILURE:
        fail_flow(tx, run, pb.FLOW_ERROR_TYPE_WORKER_API_FAIL, error.detail)
        return
    run.locks.release(step.key)
    step.conditions = pb.ConditionResults(wait_for_failed=True)
    step.recovery = _recovery(error)
    begin_method(tx, run, step, Phase.EXECUTE)


def _spend_execute(
    tx: Transaction, run: Run, step: StepExecution, error: pb.WorkerErrorResponse
) -> None:
    options = step.options
    policy = options.execute_failure_policy
    if policy != pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP:
        fail_flow(tx, run, pb.FLOW_ERROR_TYPE_WORKER_API_FAIL, error.detail)
        return
    remove_step(tx, run, step)
    movement = pb.StepMovement(
        step_type=options.execute_failure_proceed_step_type,
        step_input=step.input,
        step_options=options.execute_failure_proceed_step_options,
    )
    start_step(tx, run, movement, step.id, recovery=_recovery(error))


def _recovery(error: pb.WorkerErrorResponse) -> pb.RecoveryErrorInfo:
    return pb.RecoveryErrorInfo(detail=error.detail, error_type=error.error_type)
