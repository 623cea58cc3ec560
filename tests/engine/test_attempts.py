"""Attempts of a method: retries, what they carry over, timeouts, and the routes of a spent one."""

import asyncio
from datetime import timedelta

import pytest
from dex import (
    AsyncContext,
    Attribute,
    FlowErrorType,
    FlowStatus,
    RetryPolicy,
    StepDecision,
    StepMovement,
    StepOptions,
    Wait,
    WaitForFailurePolicy,
    go_to_many,
    graceful_complete,
    retry_after,
)
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.instants import EPOCH
from dex_agents_dex.devengine.core.retries import delay_before_retry
from tests.engine.conftest import OnEngine
from tests.engine.rig import ONE_ATTEMPT, Scenario, step, until

LONGEST_BACKOFF = timedelta(seconds=8)  # of four retries; far below a heartbeat timeout


@pytest.mark.parametrize(
    ("policy", "attempt", "elapsed", "requested", "delay"),
    [
        (pb.RetryPolicy(), 1, 0, None, 1),
        (pb.RetryPolicy(), 4, 0, None, 8),
        (pb.RetryPolicy(), 9, 0, None, 100),
        (pb.RetryPolicy(), 5000, 0, None, 100),
        (pb.RetryPolicy(), 1, 0, 7, 7),
        (pb.RetryPolicy(), 3, 4 * 3600 - 4, None, 4),
        (pb.RetryPolicy(), 3, 4 * 3600 - 3, None, None),
        (pb.RetryPolicy(maximum_attempts=2), 1, 0, None, 1),
        (pb.RetryPolicy(maximum_attempts=2), 2, 0, None, None),
        (pb.RetryPolicy(initial_interval_seconds=3, backoff_coefficient=1.0), 7, 0, None, 3),
        (pb.RetryPolicy(maximum_interval_seconds=5), 9, 0, None, 5),
        (pb.RetryPolicy(total_duration_seconds=10), 3, 6, None, 4),
        (pb.RetryPolicy(total_duration_seconds=10), 3, 7, None, None),
    ],
)
def test_delay__follows_the_policy_until_it_is_spent(
    policy: pb.RetryPolicy,
    attempt: int,
    elapsed: int,
    requested: int | None,
    delay: int | None,
) -> None:
    found = delay_before_retry(
        policy,
        attempt,
        EPOCH,
        EPOCH + timedelta(seconds=elapsed),
        None if requested is None else timedelta(seconds=requested),
    )
    assert found == (None if delay is None else timedelta(seconds=delay))


async def test_retry__counts_attempts_and_brings_the_last_heartbeat_value(
    on_engine: OnEngine,
) -> None:
    seen: list[tuple[int, str | None, object]] = []

    async def flaky(context: AsyncContext, given: str) -> StepDecision:
        beat = context.get_last_heartbeat_value(str)
        seen.append((context.attempt, beat, context.first_attempt_at))
        if context.attempt == 1:
            await context.heartbeat("half way")
        if context.attempt == 3:
            await context.heartbeat()
        if context.attempt < 5:
            raise RuntimeError("again")
        return graceful_complete("done")

    flow = Scenario(step("Flaky", flaky))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        finished = asyncio.create_task(rig.outputs("f"))
        while not finished.done():
            rig.engine.skip_time(LONGEST_BACKOFF)
            await asyncio.wait({finished}, timeout=0.05)
        assert finished.result() == [("Flaky-1", "done")]
        assert [(attempt, beat) for attempt, beat, _ in seen] == [
            (1, None),
            (2, "half way"),
            (3, "half way"),
            (4, None),
            (5, None),
        ]
        assert len({first for _, _, first in seen}) == 1


async def test_retry__comes_when_the_worker_asked_for_it(on_engine: OnEngine) -> None:
    attempts: list[int] = []

    async def busy_for_now(context: AsyncContext, given: str) -> StepDecision:
        attempts.append(context.attempt)
        if context.attempt == 1:
            raise retry_after(30, RuntimeError("later"))
        return graceful_complete("done")

    flow = Scenario(step("Busy", busy_for_now))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")

        def has_failed() -> bool:
            return bool(attempts) and not rig.engine.counts()["tasks_at_workers"]

        await until(has_failed)
        rig.engine.skip_time(timedelta(seconds=29))
        assert has_failed()
        rig.engine.skip_time(timedelta(seconds=1))
        assert not has_failed()
        assert await rig.outputs("f") == [("Busy-1", "done")]
        assert attempts == [1, 2]


async def test_retry__sees_the_snapshot_of_the_first_attempt(on_engine: OnEngine) -> None:
    color = Attribute("Color", str)
    seen: list[object] = []

    async def flaky(context: AsyncContext, given: str) -> StepDecision:
        seen.append(color.get(context))
        if context.attempt == 1:
            raise retry_after(1, RuntimeError("again"))
        return graceful_complete("done")

    async def paint(context: AsyncContext, given: str) -> StepDecision:
        color.set(context, "red")
        return graceful_complete("painted")

    flaking, painting = step("Flaky", flaky), step("Paint", paint)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(StepMovement.of(type(flaking), ""), StepMovement.of(type(painting), ""))

    flow = Scenario(step("Fan", fan), flaking, painting, schema=(color,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert sorted(await rig.outputs("f")) == [("Flaky-1", "done"), ("Paint-1", "painted")]
        assert seen == [None, None]


async def test_spent_execute__fails_the_flow_with_the_last_error(on_engine: OnEngine) -> None:
    async def fail(context: AsyncContext, given: str) -> StepDecision:
        raise LookupError("no luck")

    flow = Scenario(step("Failing", fail, options=StepOptions(execute_retry=ONE_ATTEMPT)))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        result = await rig.result("f")
        assert (result.status, result.error_type, result.error_message) == (
            FlowStatus.FAILED,
            FlowErrorType.WORKER_API_FAILED,
            "no luck",
        )


async def test_spent_execute__proceeds_with_its_input_error_and_options(
    on_engine: OnEngine,
) -> None:
    notes = Attribute("Notes", str)

    async def recover(context: AsyncContext, given: str) -> StepDecision:
        if context.attempt == 1:
            raise RuntimeError("the given options allow a second attempt")
        error = context.recovery_error
        assert error is not None
        return graceful_complete(
            [given, context.from_step_execution_id, error.detail, error.error_type]
        )

    async def fail(context: AsyncContext, given: str) -> StepDecision:
        notes.set(context, "dropped")
        raise LookupError("no luck")

    recovering = step("Recover", recover, options=StepOptions(execute_retry=ONE_ATTEMPT))
    options = StepOptions(execute_retry=ONE_ATTEMPT).on_execute_failure_proceed_to(
        type(recovering),
        StepOptions(
            execute_retry=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=2)
        ),
    )
    flow = Scenario(step("Failing", fail, options=options), recovering, schema=(notes,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "payload")
        assert await rig.outputs("f", list[str]) == [
            ("Recover-1", ["payload", "Failing-1", "no luck", "builtins.LookupError"])
        ]


async def test_spent_wait_for__proceeds_to_execute_when_told_to(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        raise LookupError("cannot wait")

    async def execute(context: AsyncContext, given: str) -> StepDecision:
        error = context.recovery_error
        assert error is not None
        return graceful_complete([str(context.wait_for_method_failed()), error.detail])

    options = StepOptions(wait_for_retry=ONE_ATTEMPT, wait_for_failure=WaitForFailurePolicy.PROCEED)
    flow = Scenario(step("Only", execute, wait_for=wait, options=options))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [("Only-1", ["True", "cannot wait"])]


async def test_spent_wait_for__fails_the_flow_by_default(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        raise LookupError("cannot wait")

    async def execute(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("unreachable")

    options = StepOptions(wait_for_retry=ONE_ATTEMPT)
    flow = Scenario(step("Only", execute, wait_for=wait, options=options))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        result = await rig.result("f")
        assert (result.status, result.error_message) == (FlowStatus.FAILED, "cannot wait")


async def test_method_timeout__ends_the_attempt_and_says_so(on_engine: OnEngine) -> None:
    async def hang(context: AsyncContext, given: str) -> StepDecision:
        await asyncio.Event().wait()
        return graceful_complete("unreachable")

    options = StepOptions(execute_retry=ONE_ATTEMPT, execute_method_timeout=timedelta(seconds=1))
    flow = Scenario(step("Hanging", hang, options=options))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        result = await rig.result("f")
        assert (result.status, result.error_message) == (
            FlowStatus.FAILED,
            "execute timeout: Hanging-1 gave no result within 0:00:01",
        )


async def test_heartbeat_timeout__ends_a_silent_attempt_only(on_engine: OnEngine) -> None:
    started, cancelled = asyncio.Queue[int](), asyncio.Event()

    async def hang(context: AsyncContext, given: str) -> StepDecision:
        if context.attempt == 2:
            return graceful_complete("second attempt")
        started.put_nowait(context.attempt)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return graceful_complete("unreachable")

    options = StepOptions(
        heartbeat_timeout=timedelta(seconds=30),
        execute_retry=RetryPolicy(initial_interval=timedelta(seconds=1)),
    )
    flow = Scenario(step("Hanging", hang, options=options))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await started.get()
        rig.engine.skip_time(timedelta(seconds=31))
        assert await rig.outputs("f") == [("Hanging-1", "second attempt")]
        assert cancelled.is_set()
