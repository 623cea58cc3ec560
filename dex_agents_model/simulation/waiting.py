"""How the waits of a simulated session end, and how its time passes."""

from __future__ import annotations

from attrs import evolve

from ..effects import DeadlineReached, Occurrence
from .channels import occurrence_of, take
from .world import Phase, World


def settled(world: World) -> World:
    """``world`` once each wait that can end has ended: by its Timer first, else by messages, which it consumes."""
    channels = world.channels
    executions = world.executions
    for at, execution in enumerate(executions):
        if execution.phase is not Phase.WAITING or execution.condition is None:
            continue
        on: Occurrence
        if execution.due_ms is not None and execution.due_ms <= world.now_ms:
            on = DeadlineReached()
        elif (taken := take(channels, execution.condition)) is not None:
            channel, messages, channels = taken
            on = occurrence_of(channel, messages)
        else:
            continue
        ready = evolve(execution, phase=Phase.READY, on=on, condition=None, due_ms=None)
        executions = (*executions[:at], ready, *executions[at + 1 :])
    return world._replace(channels=channels, executions=executions)


def after_time(world: World, now_ms: int) -> World:
    """``world`` when it is ``now_ms``; every Timer that is due by then has fired."""
    return settled(world._replace(now_ms=now_ms))


def next_instant(world: World) -> int | None:
    """When the next Timer fires or the next backoff ends; None when nothing is due."""
    instants = [
        execution.due_ms
        for execution in world.executions
        if execution.due_ms is not None and execution.due_ms > world.now_ms
    ]
    return min(instants, default=None)
