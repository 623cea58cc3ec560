"""Random commands on the core: what is stored is what is in memory, and no Step is stuck.

A failure names its seed and the commands before it.
"""

import random
from datetime import timedelta
from typing import Any

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Phase, Progress, Run, StepExecution
from dex_agents_dex.devengine.core.transaction import Settings, TimerKey, TimerKind
from dex_agents_dex.devengine.loading import load_all_attributes, load_run
from tests.engine.core_world import World

COMMANDS = 400
# Bytes of maps that stay in memory: all, none, and about two entries.
IN_MEMORY = (1 << 20, 0, 600)
UNCLAIMED = (None, None, None, timedelta(seconds=10))
FRAME_LIMITS = (4_000_000, 4_000_000, 4_000_000, 4_000_000, 350)


@pytest.mark.parametrize("seed", range(10))
def test_core__at_random(seed: int) -> None:
    settings = Settings(
        blob_threshold_bytes=40,
        spends_lost_attempts=seed % 2 == 0,
        unclaimed_task_timeout=UNCLAIMED[seed % len(UNCLAIMED)],
        frame_limit_bytes=FRAME_LIMITS[seed % len(FRAME_LIMITS)],
        map_bytes_in_memory=IN_MEMORY[seed % len(IN_MEMORY)],
    )
    world = World(random.Random(seed), settings)
    acts: list[str] = []
    for _ in range(COMMANDS):
        acts.append(world.act())
        told = f"seed {seed}, after {acts[-12:]}"
        for run, task in world.prepared:
            assert _loaded(task) == _selected(world, run, task), told
        for run in world.core.runs.values():
            stored = load_run(world.database, run.key)
            assert stored is not None, told
            assert _shape(stored) == _shape(run), told
            attributes = load_all_attributes(world.database, run.key)
            assert run.attributes.over(attributes) == attributes, told
            is_within = run.attributes.size_bytes <= settings.map_bytes_in_memory
            assert is_within or run.attributes.is_being_read, told
            assert _stuck(world, run) == [], told
    answered = set(world.replies)
    open_calls = {call for run in world.core.runs.values() for call in run.rpcs}
    assert answered | open_calls == set(world.opened)
    assert not answered & open_calls


def _loaded(task: pb.PollWorkerTask) -> dict[str, pb.Value]:
    return {each.key: each.value for each in _request(task).attributes}


def _selected(world: World, run: Run, task: pb.PollWorkerTask) -> dict[str, pb.Value]:
    """What the store holds of what a task selects, as its Worker is to see it."""
    selections = _request(task).loaded_attribute_map_instances
    return {
        key: value
        for key, value in load_all_attributes(world.database, run.key).items()
        if "/" not in key or key in selections or f"{key.partition('/')[0]}/" in selections
    }


def _request(task: pb.PollWorkerTask) -> Any:
    return getattr(task, str(task.WhichOneof("request")))


def _stuck(world: World, run: Run) -> list[str]:
    """Steps that nothing will ever move: no offer, task, timer, condition or lock is theirs."""
    if not run.is_running:
        return [step.id for step in run.steps.values()]
    return [
        f"{step.id} {step.phase.name} {step.progress.name}"
        for step in run.steps.values()
        if not _can_move(world, run, step)
    ]


def _can_move(world: World, run: Run, step: StepExecution) -> bool:
    has_timer = TimerKey(TimerKind.STEP, run.key, step.key) in world.timers
    if step.phase is Phase.WAITING:
        # A Wait whose every timer has fired goes on by messages alone.
        timers_left = any(due > world.now for due in step.timer_dues())
        return run.waiting.get(step.key) is step and has_timer == timers_left
    if step.progress is Progress.OFFERED:
        return step.offer in world.offers
    if step.progress is Progress.HANDED_OUT:
        carried = {each.task_id for each in world.carried}
        return step.task_id in carried and world.core.is_in_flight(step.task_id) and has_timer
    if step.progress is Progress.LOADING:
        needs = [*world.needs, *(reading.need for reading in world.readings)]
        return any(need.subject is step for need in needs)
    if step.progress is Progress.BLOCKED:
        is_its_own_obstacle = run.locks.holds(step.key)
        has_others = not run.locks.try_acquire("probe", step.lock_keys) or _gave_back(run)
        return has_others and not is_its_own_obstacle
    return step.progress in (Progress.BACKOFF, Progress.UNSENDABLE) and has_timer


def _gave_back(run: Run) -> bool:
    """Its keys are free: then somebody before it in line must want them."""
    run.locks.release("probe")
    return bool(run.locks.waiting > 1)


def _shape(run: Run) -> dict[str, Any]:
    return {
        "ids": (run.key, run.flow_id, run.run_id, run.flow_type, run.request_id, run.started_at),
        "status": (run.status, run.error_type, run.error_message, run.closed_at),
        "end": (run.is_graceful, run.abandoned),
        "attributes": run.attributes.singletons,
        "channels": {
            name: [(m.sequence, m.message_id, _bytes(m.value)) for m in messages]
            for name, messages in run.channels.items()
        },
        "counters": run.counters,
        "outputs": [output.SerializeToString() for output in run.outputs],
        "blobs": run.blob_sizes,
        "indexed": run.indexed,
        "next_event": run.next_event,
        "steps": {step.key: _step_shape(step) for step in run.steps.values()},
    }


def _step_shape(step: StepExecution) -> tuple[Any, ...]:
    return (
        (step.id, step.source, _bytes(step.input), step.options.SerializeToString()),
        (step.phase, step.progress is Progress.HANDED_OUT, step.attempt),
        (step.first_attempt_at, step.not_before, step.waiting_since, step.skipped_timers),
        (_bytes(step.heartbeat), {key: _bytes(value) for key, value in step.locals.items()}),
        [
            None if message is None else message.SerializeToString()
            for message in (step.recovery, step.wait, step.conditions)
        ],
    )


def _bytes(value: pb.Value | None) -> bytes | None:
    return None if value is None else value.SerializeToString()
