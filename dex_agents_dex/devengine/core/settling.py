"""The end of every command: what the changed run lets happen next.

Waits are evaluated in execution order, locks granted in line order, and methods that may run are
offered with a snapshot of the state that the whole command left.
"""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.changes import take_messages
from dex_agents_dex.devengine.core.closing import close_flow
from dex_agents_dex.devengine.core.conditions import winner
from dex_agents_dex.devengine.core.state import Phase, Progress, Run, StepExecution
from dex_agents_dex.devengine.core.steps import begin_method, offer_step
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind, Transaction
from dex_agents_dex.devengine.core.values import own_copy


def settle(tx: Transaction, run: Run) -> None:
    if run.is_running:
        for key in sorted(run.waiting):  # not in the order in which they began to wait
            _evaluate_wait(tx, run, run.waiting[key])
        _begin_methods(tx, run)
        _grant_locks(tx, run)
    if run.is_running and run.is_graceful and not _has_active_step(run):
        close_flow(tx, run, pb.FLOW_STATUS_COMPLETED)


def begin_wait(
    tx: Transaction, run: Run, step: StepExecution, condition: pb.WaitingCondition
) -> None:
    """Fix the timers at now plus their durations; the Wait is evaluated when `tx` settles."""
    step.phase = Phase.WAITING
    step.progress = Progress.NEW
    step.wait = own_copy(condition)
    step.waiting_since = tx.now
    step.skipped_timers.clear()
    run.waiting[step.key] = step
    tx.touch_step(run, step)
    set_wait_timer(tx, run, step)


def set_wait_timer(tx: Transaction, run: Run, step: StepExecution) -> None:
    tx.timers[TimerKey(TimerKind.STEP, run.key, step.key)] = min(
        (due for due in step.timer_dues() if due > tx.now), default=None
    )


def _evaluate_wait(tx: Transaction, run: Run, step: StepExecution) -> None:
    assert step.wait is not None
    has_fired = [due <= tx.now for due in step.timer_dues()]
    won = winner(step.wait, has_fired, run.channel_size)
    if won is None:
        return
    results = pb.ConditionResults()
    for timer, fired in zip(step.wait.timer_conditions, has_fired, strict=True):
        results.timer_results.add(condition_id=timer.condition_id, condition_status=_status(fired))
    for index, channel in enumerate(step.wait.channel_conditions):
        result = results.channel_results.add(
            condition_id=channel.condition_id,
            channel_name=channel.channel_name,
            condition_status=_status(index in won.takes),
        )
        if index in won.takes:
            name = channel.channel_name
            result.values.extend(take_messages(tx, run, name, won.takes[index]))
    del run.waiting[step.key]
    tx.timers[TimerKey(TimerKind.STEP, run.key, step.key)] = None
    step.wait = step.waiting_since = None
    step.skipped_timers.clear()
    step.conditions = results
    begin_method(tx, run, step, Phase.EXECUTE)


def _status(is_completed: bool) -> pb.ConditionStatus:
    return pb.CONDITION_STATUS_COMPLETED if is_completed else pb.CONDITION_STATUS_WAITING


def _begin_methods(tx: Transaction, run: Run) -> None:
    """Ask for the locks of every method that began; offer those that need none."""
    mine = [step for owner, step in tx.beginning if owner is run]
    tx.beginning = [pair for pair in tx.beginning if pair[0] is not run]
    for step in mine:
        if step.progress is not Progress.NEW or step.key not in run.steps:
            continue
        keys = step.lock_keys
        if not keys:
            offer_step(tx, run, step)
        elif run.is_running:
            # Those who waited before come first; `_grant_locks` follows.
            run.locks.wait_in_line(step.key, keys)
            step.progress = Progress.BLOCKED


def _grant_locks(tx: Transaction, run: Run) -> None:
    for key in run.locks.grant_line():
        step = run.steps[key] if isinstance(key, int) else None
        if step is not None and run.is_running:
            offer_step(tx, run, step)


def _has_active_step(run: Run) -> bool:
    return any(not step.is_timeout_handler for step in run.steps.values())
