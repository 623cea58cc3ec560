"""A run that was read from the store takes up its work again.

Locks, offers, timers and in-flight tasks were in memory only; they are made anew from the rows.
"""

from __future__ import annotations

from datetime import timedelta

from dex_agents_dex.devengine.core.errors import UNAVAILABLE_STATUS
from dex_agents_dex.devengine.core.settling import set_wait_timer, settle
from dex_agents_dex.devengine.core.state import (
    TIMEOUT_STEP_TYPE,
    Phase,
    Progress,
    Run,
    StepExecution,
)
from dex_agents_dex.devengine.core.steps import (
    back_off,
    engine_error,
    fail_attempt,
    offer_step,
    take_back,
)
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind, Transaction


def resume(tx: Transaction, run: Run) -> None:
    """Continue a running Flow. Attempts that were handed out count as cut without a frame."""
    if not run.is_running:
        return
    _set_flow_timer(tx, run)
    steps = tuple(run.steps.values())
    for step in steps:
        if _held_its_locks(step) and step.lock_keys:
            run.locks.try_acquire(step.key, step.lock_keys)
    for step in steps:
        if step.key in run.steps:
            _resume_step(tx, run, step)
    settle(tx, run)


def _resume_step(tx: Transaction, run: Run, step: StepExecution) -> None:
    if step.phase is Phase.WAITING:
        run.waiting[step.key] = step
        set_wait_timer(tx, run, step)
    elif step.progress is Progress.HANDED_OUT:
        if tx.settings.spends_lost_attempts:
            detail = f"the engine stopped while {step.id} was running"
            fail_attempt(tx, run, step, engine_error("EngineStopped", detail, UNAVAILABLE_STATUS))
        else:
            take_back(tx, run, step)
    elif step.not_before is not None:
        back_off(tx, run, step, step.not_before)
    elif run.locks.holds(step.key):
        offer_step(tx, run, step)  # a later attempt, which would wait for itself in line
    else:
        tx.beginning.append((run, step))


def _held_its_locks(step: StepExecution) -> bool:
    if step.phase is Phase.WAITING:
        return False
    return step.progress is Progress.HANDED_OUT or step.attempt > 1


def _set_flow_timer(tx: Transaction, run: Run) -> None:
    seconds = run.start.flow_timeout_seconds
    if seconds and TIMEOUT_STEP_TYPE not in run.counters:
        delay_seconds = run.start.flow_start_options.flow_start_delay_seconds
        due = run.started_at + timedelta(seconds=delay_seconds + seconds)
        tx.timers[TimerKey(TimerKind.FLOW, run.key)] = due
