"""How an attempt ends without a commit: its backoff, its failure route, and the faults that bring it about."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from attrs import evolve, fields_dict

from .. import table
from ..effects import AttemptsExhausted
from ..events import StepMethod
from ..steps import Step
from .actions import Action, AttemptFailed, Change, Does, Edge
from .committing import placed, queued
from .evaluation import Failed
from .faults import Fault
from .world import Execution, Phase, World, in_order

_LOST_WORKER: Final = Failed("the Worker was lost", "WorkerLost")
_COUNTED_ATTEMPTS: Final = (
    8  # of a Step that is tried for ever; by then its interval is at its longest
)
_MS: Final = timedelta(milliseconds=1)


def failing(world: World, at: int, execution: Execution, failed: Failed, *, is_timed: bool) -> Edge:
    """The attempt of execution number ``at`` raised."""
    after = _after_failure(world, at, execution, failed, is_timed)
    limits = table.SPEC_OF[type(execution.step)].limits
    cause = AttemptFailed(execution.step, failed, limits.attempts is None)
    who = f"{execution.name}.{execution.phase.method}"
    return Edge(Action(who, Does.FAIL), after, (Change(world, after, cause),))


def striking(world: World, at: int, execution: Execution, fault: Fault, *, is_timed: bool) -> Edge:
    """The Worker of execution number ``at`` is lost, and its attempt is spent."""
    struck = world._replace(faults_left=world.faults_left - 1)
    if execution.phase is Phase.ASKING:
        struck = with_stale(struck, execution)
    after = _after_failure(struck, at, execution, _LOST_WORKER, is_timed)
    who = f"{execution.name}.{execution.phase.method}"
    return Edge(Action(who, fault, is_fate=True), after)


def with_stale(world: World, execution: Execution) -> World:
    """The engine gives ``execution``'s delivery up; its Worker may live on and claim the call late."""
    return world._replace(stale=in_order((*world.stale, execution)))


def _after_failure(
    world: World, at: int, execution: Execution, failed: Failed, is_timed: bool
) -> World:
    """The next attempt, after its backoff and with the same snapshot; or the failure route, with the same input."""
    limits = table.SPEC_OF[type(execution.step)].limits
    interval = min(limits.first_interval * 2 ** (execution.attempt - 1), limits.longest_interval)
    due_ms = world.now_ms + interval // _MS
    is_spent = limits.attempts is not None and (
        execution.attempt >= limits.attempts or due_ms - execution.began_ms > limits.within // _MS
    )
    if is_spent and limits.on_exhausted is not None:
        exhausted = AttemptsExhausted(failed.detail, failed.error_type)
        return placed(
            world, at, queued(_same_input(execution.step, limits.on_exhausted), exhausted)
        )
    counted = _COUNTED_ATTEMPTS if is_timed else 1
    plans = execution.phase.method is StepMethod.WAIT_FOR
    backing_off = evolve(
        execution,
        phase=Phase.PLANNING_AGAIN if plans else Phase.RUNNING_AGAIN,
        attempt=min(execution.attempt + 1, limits.attempts or counted),
        due_ms=due_ms if is_timed else None,
        granted=None,
        deployment=0,
    )
    return placed(world, at, backing_off)


def _same_input(step: Step, route: type[Step]) -> Step:
    """The route reads of the Step's input what it knows, as it does on the wire."""
    known = fields_dict(route).keys() & fields_dict(type(step)).keys()
    return route(**{name: getattr(step, name) for name in known})
