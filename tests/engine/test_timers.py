"""Timers: over a clock that jumps, beside one that fails, and after the end."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind
from dex_agents_dex.devengine.server import timers
from dex_agents_dex.devengine.server.timers import Clock, TimerQueue
from tests.engine.wire_worker import WireWorker, execute_only

TYPE = "Wired"
HOUR_SECONDS = 3600


@define
class _Jumping:
    """What the wall clock is ahead of the true one."""

    ahead_seconds: float = 0.0


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> _Jumping:
    clock = _Jumping()
    monkeypatch.setattr(timers, "wall_seconds", lambda: time.time() + clock.ahead_seconds)
    monkeypatch.setattr(timers, "_LONGEST_SLEEP_SECONDS", 0.05)
    return clock


async def test_clock__that_is_ahead_after_a_sleep_makes_no_worker_late(
    jumping: _Jumping, flows: Any, worker: WireWorker
) -> None:
    await flows.StartFlow(_start("at work"))
    await flows.StartFlow(_start("tried again"))
    stream, other = await worker.stream(TYPE), await worker.stream(TYPE)
    await stream.next_task()
    await other.next_task()
    jumping.ahead_seconds = HOUR_SECONDS
    await other.fail("and tried again a second later")
    await other.next_task()
    await stream.complete("done")
    result = await flows.WaitForFlow(
        pb.WaitForFlowRequest(flow_id="at work", needs_results=True, wait_time_seconds=20)
    )
    [output] = result.results
    assert output.completed_step_output == pb.Value(string_value="done")


async def test_clock__that_is_set_back_still_ends_a_silent_attempt(
    jumping: _Jumping, flows: Any, worker: WireWorker, engine: DevEngine
) -> None:
    await flows.StartFlow(_start("f"))
    stream = await worker.stream(TYPE)
    task = await stream.next_task()
    jumping.ahead_seconds = -HOUR_SECONDS
    engine.skip_time(timedelta())  # it looks at its clock
    engine.skip_time(timedelta(seconds=61))
    frame = await stream.read()
    assert frame is not None
    assert frame.cancel_task.task_id == task.task_id


async def test_timer__fires_soon_after_a_sleep_in_which_it_became_due(jumping: _Jumping) -> None:
    fired = asyncio.Event()
    queue = TimerQueue(Clock(), lambda key: fired.set(), lambda: None)
    queue.set(_key(1), datetime.now(UTC) + timedelta(hours=1))
    jumping.ahead_seconds = HOUR_SECONDS
    async with asyncio.timeout(20):
        await fired.wait()
    queue.close()


async def test_timer__that_breaks_off_leaves_the_others_running() -> None:
    fired = asyncio.Event()

    def fire(key: TimerKey) -> None:
        if key == _key(1):
            raise ZeroDivisionError("a fault of the engine")
        fired.set()

    queue = TimerQueue(Clock(), fire, lambda: None)
    now = datetime.now(UTC)
    queue.set(_key(1), now)
    queue.set(_key(2), now + timedelta(milliseconds=1))
    async with asyncio.timeout(20):
        await fired.wait()
    queue.close()


async def test_timer__fires_no_more_once_the_engine_stops() -> None:
    fired: list[TimerKey] = []
    queue = TimerQueue(Clock(), fired.append, lambda: None)
    queue.close()
    queue.set(_key(1), datetime.now(UTC))  # by a result that came in meanwhile
    queue.fire_due()
    assert fired == []
    assert queue.pending == 1


def _key(run_key: int) -> TimerKey:
    return TimerKey(TimerKind.FLOW, run_key)


def _start(flow_id: str) -> pb.StartFlowRequest:
    return pb.StartFlowRequest(
        flow_id=flow_id,
        flow_type=TYPE,
        request_id="r",
        start_step_type="Only",
        step_options=execute_only(),
    )
