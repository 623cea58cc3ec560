"""What a Flow has after its engine was stopped and started on the same directory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import (
    AsyncContext,
    Attribute,
    AttributeMap,
    Channel,
    Context,
    Flow,
    FlowAlreadyStartedError,
    FlowStatus,
    RetryPolicy,
    RpcLockConflictError,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    StepMovement,
    StepOptions,
    Timer,
    Wait,
    dead_end,
    go_to_many,
    graceful_complete,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from tests.engine.rig import ONE_ATTEMPT, EngineRig, Rig, Scenario, rig, step

COLOR, NOTES, INBOX = Attribute("Color", str), AttributeMap("Notes", str), Channel("Inbox", str)
LOAD_ALL = StepOptions(execute_load_attribute_maps=(NOTES,), execute_load_channels=(INBOX,))

OnSameData = Callable[..., AbstractAsyncContextManager[EngineRig]]


class _Kept(Scenario):
    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(COLOR, NOTES, INBOX))

    @rpc(is_transactional=True)
    def publish(self, context: Context, text: str) -> RPCResult[bool]:
        INBOX.publish(context, text)
        return RPCResult(True)

    @rpc
    def color(self, context: Context) -> RPCResult[str]:
        return RPCResult(str(COLOR.get(context)))

    @rpc(lock_attributes=(COLOR.lock(),))
    def locked(self, context: Context) -> RPCResult[bool]:
        return RPCResult(True)


@pytest.fixture
def on_same_data(tmp_path: Path) -> OnSameData:
    """`async with on_same_data(flow) as rig`: each time a new engine on the same directory."""

    @asynccontextmanager
    async def make(
        *flows: Flow[Any], has_worker: bool = True, options: EngineOptions | None = None
    ) -> AsyncIterator[EngineRig]:
        async with (
            DevEngine(tmp_path / "data", options=options) as engine,
            rig(engine, tmp_path, *flows, has_worker=has_worker) as made,
        ):
            yield made

    return make


async def test_restart__keeps_a_waiting_step_with_its_timer_and_messages(
    on_same_data: OnSameData,
) -> None:
    waits = asyncio.Event()

    async def wait(context: AsyncContext, given: str) -> Wait:
        context.set_step_execution_local("local", "kept")
        waits.set()
        return Wait.all_of(INBOX.for_n(2), Timer.by_duration(timedelta(hours=1)))

    async def take(context: AsyncContext, given: str) -> StepDecision:
        local = str(context.get_step_execution_local("local", str))
        return graceful_complete([given, local, *INBOX.results(context)])

    flow = _Kept(step("Waiting", take, wait_for=wait))
    async with on_same_data(flow) as rig:
        await rig.client.start_flow(flow, "f", "input")
        await waits.wait()
        await rig.rpc(flow.publish, "f", "a")
    async with on_same_data(flow) as rig:
        await rig.rpc(flow.publish, "f", "b")
        await rig.rpc(flow.publish, "f", "c")
        rig.engine.skip_time(timedelta(hours=1))
        assert await rig.outputs("f", list[str]) == [("Waiting-1", ["input", "kept", "a", "b"])]


async def test_restart__keeps_attributes_messages_counters_and_outputs(
    on_same_data: OnSameData,
) -> None:
    written = asyncio.Event()

    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(Timer.by_duration(timedelta(hours=1)))

    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(
            [
                COLOR.get(context),
                *NOTES.get_all_instance_keys(context),
                *(message.value for message in INBOX.pending_messages(context)),
            ]
        )

    async def first(context: AsyncContext, given: str) -> StepDecision:
        COLOR.set(context, "red")
        for key in "abc":
            NOTES.set(context, key, key)
            INBOX.publish(context, key)
        return go_to_many(
            StepMovement.of(type(done), "early"),
            StepMovement.of(type(deleting), ""),
            StepMovement.of(type(reading), ""),
        )

    async def delete(context: AsyncContext, given: str) -> StepDecision:
        NOTES.delete(context, "b")
        INBOX.delete(context, INBOX.pending_messages(context)[0].message_id)
        written.set()
        return dead_end()

    async def finish(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([given])

    reading = step("Reading", read, wait_for=wait, options=LOAD_ALL)
    deleting, done = step("Deleting", delete, options=LOAD_ALL), step("Done", finish)
    flow = _Kept(step("First", first), deleting, done, reading)
    async with on_same_data(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await written.wait()
        while len(await _history(rig, "f")) < 5:
            pass
    async with on_same_data(flow) as rig:
        rig.engine.skip_time(timedelta(hours=1))
        assert await rig.outputs("f", list[str]) == [
            ("Done-1", ["early"]),
            ("Reading-1", ["red", "a", "c", "b", "c"]),
        ]
    async with on_same_data(flow) as rig:
        assert (await rig.client.describe_flow("f")).status is FlowStatus.COMPLETED
        assert await rig.rpc(flow.color, "f") == "red"


async def _history(rig: Rig, flow_id: str) -> list[pb.FlowHistoryEvent]:
    async with grpc.aio.insecure_channel(rig.address) as channel:
        stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        response = await stub.GetHistoryEvents(pb.GetHistoryEventsRequest(flow_id=flow_id))
        return list(response.events)


@pytest.mark.parametrize("redelivery", ["spend", "same-attempt"])
async def test_restart__counts_an_attempt_in_flight_as_lost(
    on_same_data: OnSameData, redelivery: Any
) -> None:
    options = EngineOptions(redelivery=redelivery)
    attempts = asyncio.Queue[int]()
    is_patient = True

    async def run(context: AsyncContext, given: str) -> StepDecision:
        attempts.put_nowait(context.attempt)
        if is_patient:
            await asyncio.Event().wait()
        return graceful_complete("done")

    flow = _Kept(step("Running", run))
    async with on_same_data(flow, has_worker=False, options=options) as rig:
        await rig.client.start_flow(flow, "f", "")
        async with rig.worker(stop_drain_timeout=timedelta(seconds=1)):
            assert await attempts.get() == 1
            await rig.engine.stop()
    is_patient = False
    async with on_same_data(flow, options=options) as rig:
        rig.engine.skip_time(timedelta(seconds=2))
        assert await rig.outputs("f") == [("Running-1", "done")]
    assert attempts.get_nowait() == (2 if redelivery == "spend" else 1)


async def test_restart__spends_the_last_attempt_in_flight(on_same_data: OnSameData) -> None:
    started = asyncio.Event()

    async def run(context: AsyncContext, given: str) -> StepDecision:
        started.set()
        await asyncio.Event().wait()
        return dead_end()

    async def recover(context: AsyncContext, given: str) -> StepDecision:
        assert context.recovery_error is not None
        return graceful_complete(context.recovery_error.detail)

    recovering = step("Recover", recover)
    options = StepOptions(execute_retry=ONE_ATTEMPT).on_execute_failure_proceed_to(type(recovering))
    flow = _Kept(step("Running", run, options=options), recovering)
    async with on_same_data(flow, has_worker=False) as rig:
        await rig.client.start_flow(flow, "f", "")
        async with rig.worker(stop_drain_timeout=timedelta(seconds=1)):
            await started.wait()
            await rig.engine.stop()
    async with on_same_data(flow) as rig:
        assert await rig.outputs("f") == [
            ("Recover-1", "the engine stopped while Running-1 was running")
        ]


async def test_restart__keeps_a_backoff_with_its_lock_and_what_the_wait_took(
    on_same_data: OnSameData,
) -> None:
    failed = asyncio.Event()

    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def flaky(context: AsyncContext, given: str) -> StepDecision:
        if context.attempt == 1:
            await context.heartbeat("beat")
            failed.set()
            raise RuntimeError("again")
        beat = str(context.get_last_heartbeat_value(str))
        return graceful_complete([str(context.attempt), beat, *INBOX.results(context)])

    options = StepOptions(
        execute_lock_attributes=(COLOR.lock(),),
        execute_retry=RetryPolicy(
            initial_interval=timedelta(hours=1), maximum_interval=timedelta(hours=1)
        ),
    )
    flow = _Kept(step("Flaky", flaky, wait_for=wait, options=options))
    async with on_same_data(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", "taken")
        await failed.wait()
    async with on_same_data(flow) as rig:
        with pytest.raises(RpcLockConflictError):
            await rig.rpc(flow.locked, "f")
        rig.engine.skip_time(timedelta(hours=1))
        assert await rig.outputs("f", list[str]) == [("Flaky-1", ["2", "beat", "taken"])]


async def test_restart__keeps_the_delay_of_a_start(on_same_data: OnSameData) -> None:
    async def run(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("done")

    flow = _Kept(step("Running", run))
    async with on_same_data(flow) as rig:
        delayed = StartFlowOptions(start_delay=timedelta(hours=1))
        await rig.client.start_flow(flow, "f", "", delayed)
    async with on_same_data(flow) as rig:
        assert (await rig.client.describe_flow("f")).status is FlowStatus.RUNNING
        rig.engine.skip_time(timedelta(hours=1))
        assert await rig.outputs("f") == [("Running-1", "done")]


async def test_restart__knows_used_flow_ids(on_same_data: OnSameData) -> None:
    async def run(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("done")

    flow = _Kept(step("Running", run))
    start = StartFlowOptions(request_id="r", ignore_already_started=True)
    async with on_same_data(flow) as rig:
        run_id = await rig.client.start_flow(flow, "f", "", start)
        await rig.result("f")
    async with on_same_data(flow) as rig:
        assert await rig.client.start_flow(flow, "f", "", start) == run_id
        with pytest.raises(FlowAlreadyStartedError):
            await rig.client.start_flow(flow, "f", "")
