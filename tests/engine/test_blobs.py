"""Large values: blobs, and tasks that no frame can hold."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import (
    AsyncContext,
    Attribute,
    AttributeMap,
    AttributeMatch,
    Channel,
    Context,
    FlowStatus,
    RetryPolicy,
    RPCResult,
    StartFlowOptions,
    StepDecision,
    StepMovement,
    StepOptions,
    Wait,
    WaitForAttributeOptions,
    WorkerInvocationError,
    dead_end,
    go_to,
    go_to_many,
    graceful_complete,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from tests.engine.conftest import OnEngine
from tests.engine.rig import ONE_ATTEMPT, Scenario, rig, step

TEXT, PARTS, INBOX = Attribute("Text", str), AttributeMap("Parts", str), Channel("Inbox", str)
LOAD_PARTS = StepOptions(execute_load_attribute_maps=(PARTS,))


class _Texts(Scenario):
    @rpc(load_attribute_maps=(PARTS,))
    def text(self, context: Context) -> RPCResult[str]:
        return RPCResult(TEXT.get(context))


@pytest.fixture
async def blob_engine(tmp_path: Path) -> AsyncIterator[DevEngine]:
    """An engine that makes a blob of every string and object."""
    options = EngineOptions(blob_threshold_bytes=0)
    async with DevEngine(tmp_path / "blobs", options=options) as running:
        yield running


async def test_blob__stands_for_a_value_wherever_one_travels(
    blob_engine: DevEngine, tmp_path: Path
) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        context.set_step_execution_local("local", "kept")
        return Wait.until(INBOX.for_one())

    async def collect(context: AsyncContext, given: str) -> StepDecision:
        beat = context.get_last_heartbeat_value(str)
        if beat is None:
            await context.heartbeat("beat")
            raise RuntimeError("once more, with the heartbeat")
        seen = [
            given,
            TEXT.get(context),
            PARTS.get(context, "p"),
            *INBOX.results(context),
            str(context.get_step_execution_local("local", str)),
            beat,
        ]
        return graceful_complete(seen)

    collecting = step("Collecting", collect, wait_for=wait, options=LOAD_PARTS)

    async def write(context: AsyncContext, given: str) -> StepDecision:
        TEXT.set(context, given)
        PARTS.set(context, "p", "part")
        INBOX.publish(context, "message")
        return go_to(type(collecting), "moved")

    flow = _Texts(step("Write", write), collecting, schema=(TEXT, PARTS, INBOX))
    async with rig(blob_engine, tmp_path, flow) as on_blobs:
        await on_blobs.client.start_flow(flow, "f", "start")
        assert await on_blobs.outputs("f", list[str]) == [
            ("Collecting-1", ["moved", "start", "part", "message", "kept", "beat"])
        ]
        assert await on_blobs.rpc(flow.text, "f") == "start"


async def test_blob__is_waited_for_by_its_content(blob_engine: DevEngine, tmp_path: Path) -> None:
    flow = _Texts(step("Only", _nothing), schema=(TEXT, PARTS, INBOX))
    start = StartFlowOptions().with_attribute(TEXT, "content")
    async with rig(blob_engine, tmp_path, flow, has_worker=False) as on_blobs:
        await on_blobs.client.start_flow(flow, "f", "", start)
        for match in (AttributeMatch.equal_to("content"), AttributeMatch.not_equal_to("another")):
            options = WaitForAttributeOptions()
            found = await on_blobs.client.wait_for_attribute_match("f", TEXT, match, options)
            assert found == "content"


async def test_blob__survives_a_restart(tmp_path: Path) -> None:
    async def write(context: AsyncContext, given: str) -> StepDecision:
        TEXT.set(context, given)
        return dead_end()

    flow = _Texts(step("Write", write), schema=(TEXT, PARTS, INBOX))
    large = "x" * 100_000
    async with (
        DevEngine(tmp_path / "data") as engine,
        rig(engine, tmp_path, flow) as before,
    ):
        await before.client.start_flow(flow, "f", large)
        while await before.rpc(flow.text, "f") != large:
            pass
    async with (
        DevEngine(tmp_path / "data") as engine,
        rig(engine, tmp_path / "other-cache", flow) as after,
    ):
        assert await after.rpc(flow.text, "f") == large


async def test_values__of_three_mebibytes_together_work(on_engine: OnEngine) -> None:
    async def read(context: AsyncContext, given: str) -> StepDecision:
        keys = PARTS.get_all_instance_keys(context)
        return graceful_complete(sum(len(PARTS.get(context, key)) for key in keys))

    flow = _Texts(step("Read", read, options=LOAD_PARTS), schema=(TEXT, PARTS, INBOX))
    start = StartFlowOptions()
    for number in range(3):
        start = start.with_attribute(PARTS, str(number), "x" * (1 << 20))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "", start)
        assert await rig.outputs("f", int) == [("Read-1", 3 << 20)]


async def test_oversize_task__fails_its_attempt_and_harms_no_worker(on_engine: OnEngine) -> None:
    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("unreachable")

    async def recover(context: AsyncContext, given: str) -> StepDecision:
        assert context.recovery_error is not None
        return graceful_complete(context.recovery_error.detail)

    recovering = step("Recover", recover)
    options = StepOptions(
        execute_load_attribute_maps=(PARTS,), execute_retry=ONE_ATTEMPT
    ).on_execute_failure_proceed_to(type(recovering))
    reading = step("Read", read, options=options)

    async def write(context: AsyncContext, given: str) -> StepDecision:
        if given == "6":
            return go_to_many(StepMovement.of(type(reading), ""))
        PARTS.set(context, given, given * (1 << 20))
        return go_to(type(writing), str(int(given) + 1))

    writing = step("Write", write)
    flow = _Texts(writing, reading, recovering, schema=(TEXT, PARTS, INBOX))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "1")
        [(step_id, told)] = await rig.outputs("f")
        assert step_id == "Recover-1"
        assert told.startswith(
            "execute of Read-1 of Flow 'f' (_Texts) cannot be handed to a Worker: "
            "the values it loads would take "
        )
        assert told.endswith("bytes, and the limit is 3900000")
        with pytest.raises(WorkerInvocationError, match="RPC text of Flow 'f'"):
            await rig.rpc(flow.text, "f")
        await rig.client.start_flow(flow, "next", "6")
        assert (await rig.result("next")).status is FlowStatus.COMPLETED


async def test_oversize_task__by_the_heartbeat_of_the_attempt_before_is_told_as_such(
    on_engine: OnEngine,
) -> None:
    async def beat(context: AsyncContext, given: str) -> StepDecision:
        await context.heartbeat("beat" * (1 << 19))
        raise RuntimeError("once more")

    twice = RetryPolicy(maximum_attempts=2)
    flow = _Texts(
        step("Beat", beat, options=StepOptions(execute_retry=twice)), schema=(TEXT, PARTS, INBOX)
    )
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "in" * (1 << 20))
        result = await rig.result("f")
    assert str(result.error_message).startswith(
        "execute of Beat-1 of Flow 'f' (_Texts) cannot be handed to a Worker: "
        "the values it loads would take 41943"
    )


async def test_answer__that_no_client_could_receive_is_refused_in_words(
    on_engine: OnEngine,
) -> None:
    flow = _Texts(step("Only", _nothing), schema=(TEXT, PARTS, INBOX))
    start = StartFlowOptions()
    for number in range(90):
        start = start.with_attribute(PARTS, str(number), "x" * 60_000)
    async with (
        on_engine(flow, has_worker=False) as rig,
        grpc.aio.insecure_channel(rig.address) as channel,
    ):
        await rig.client.start_flow(flow, "f", "", start)
        service: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await service.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert str(refused.value.details()).startswith("the state of Flow 'f' would take 54")


async def _nothing(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def test_oversize_task__made_of_many_small_values_is_refused_too(
    on_engine: OnEngine,
) -> None:
    async def fill(context: AsyncContext, given: str) -> StepDecision:
        for number in range(100):
            INBOX.publish(context, str(number % 10) * 50_000)
        return go_to(type(reading), "")

    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("unreachable")

    options = StepOptions(execute_load_channels=(INBOX,), execute_retry=ONE_ATTEMPT)
    reading = step("Read", read, options=options)
    flow = _Texts(step("Fill", fill), reading, schema=(TEXT, PARTS, INBOX))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        result = await rig.result("f")
        assert result.status is FlowStatus.FAILED
        assert result.error_message is not None
        assert "its request would take 5" in result.error_message
