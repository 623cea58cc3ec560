"""How a task comes to a Worker, and what each way of losing it costs."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from tests.engine.wire_worker import WireWorker, execute_only, wire_worker

TYPE = "Wired"


async def _start(channel: grpc.aio.Channel, flow_id: str = "f", attempts: int = 0) -> None:
    stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
    await stub.StartFlow(
        pb.StartFlowRequest(
            flow_id=flow_id,
            flow_type=TYPE,
            request_id="r",
            start_step_type="Only",
            step_input=pb.Value(string_value="in"),
            step_options=execute_only(attempts),
        )
    )


async def _result(channel: grpc.aio.Channel, flow_id: str = "f") -> tuple[str, str]:
    """Status and error message, or the first output."""
    stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
    result = await stub.WaitForFlow(
        pb.WaitForFlowRequest(flow_id=flow_id, needs_results=True, wait_time_seconds=20)
    )
    status = pb.FlowStatus.Name(result.flow_status)
    outputs = [each.completed_step_output.string_value for each in result.results]
    return status, result.error_message or "".join(outputs)


async def test_task__waits_for_a_worker_without_limit(
    channel: grpc.aio.Channel, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(channel, attempts=1)
    engine.skip_time(timedelta(days=3))
    stream = await worker.stream(TYPE)
    task = await stream.next_task()
    assert (task.execute.step_type, task.execute.context.attempt) == ("Only", 1)
    await stream.complete("done")
    assert await _result(channel) == ("FLOW_STATUS_COMPLETED", "done")


async def test_task__carries_what_the_handler_needs(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel)
    task = await (await worker.stream(TYPE)).next_task()
    context = task.execute.context
    assert task.task_id
    assert task.HasField("deadline")
    assert task.execute.step_input == pb.Value(string_value="in")
    assert not task.execute.HasField("condition_results")
    assert (context.flow_id, context.step_execution_id, context.from_step_execution_id) == (
        "f",
        "Only-1",
        "__start__",
    )
    assert (context.attempt, context.run_attempt) == (1, 1)
    assert not context.HasField("recovery_error")
    assert not context.HasField("last_heartbeat_value")


async def test_half_closed_stream__without_a_frame_redelivers_the_same_attempt(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel, attempts=1)
    first = await worker.stream(TYPE)
    lost = await first.next_task()
    await first.half_close()
    second = await worker.stream(TYPE)
    again = await second.next_task()
    assert again.task_id != lost.task_id
    assert (again.execute.context.attempt, lost.execute.context.attempt) == (1, 1)


async def test_cut_stream__without_a_frame_costs_an_attempt(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel, attempts=1)
    stream = await worker.stream(TYPE)
    await stream.next_task()
    stream.cut()
    assert await _result(channel) == (
        "FLOW_STATUS_FAILED",
        "Worker 'worker-a' disconnected while it ran Only-1",
    )


async def test_cut_stream__redelivers_the_same_attempt_when_told_to(tmp_path: Path) -> None:
    options = EngineOptions(redelivery="same-attempt")
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        await _start(channel, attempts=1)
        first = await wire_worker(channel, "worker-a").stream(TYPE)
        await first.next_task()
        first.cut()
        second = await wire_worker(channel, "worker-b").stream(TYPE)
        again = await second.next_task()
        assert again.execute.context.attempt == 1
        # A Worker that was heard of has started: its end costs an attempt all the same.
        await second.heartbeat()
        second.cut()
        assert await _result(channel) == (
            "FLOW_STATUS_FAILED",
            "Worker 'worker-b' disconnected while it ran Only-1",
        )


async def test_cut_stream__after_a_frame_retries_with_the_last_heartbeat(
    channel: grpc.aio.Channel, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(channel, attempts=2)
    first = await worker.stream(TYPE)
    await first.next_task()
    beat = pb.StepMethodHeartbeat(value=pb.Value(int_value=7))
    await first.execute(pb.InvokeExecuteMethodOutput(heartbeat=beat))
    first.cut()
    second = await worker.stream(TYPE)
    reading = asyncio.create_task(second.next_task())
    while not reading.done():
        await asyncio.wait({reading}, timeout=0.05)
        engine.skip_time(timedelta(seconds=1))
    context = (await reading).execute.context
    assert (context.attempt, context.last_heartbeat_value) == (2, pb.Value(int_value=7))


async def test_no_capacity__costs_no_attempt_and_another_worker_takes_the_task(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel, attempts=1)
    full = await worker.stream(TYPE)
    await full.next_task()
    free = await wire_worker(channel, "worker-b").stream(TYPE)
    await full.reject(pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY)
    assert (await free.next_task()).execute.context.attempt == 1


async def test_no_capacity__of_the_only_worker_is_asked_again(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel, attempts=1)
    stream = await worker.stream(TYPE)
    for _ in range(5):
        await stream.next_task()
        await stream.reject(pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY)
    assert (await stream.next_task()).execute.context.attempt == 1
    await stream.complete("at last")
    assert await _result(channel) == ("FLOW_STATUS_COMPLETED", "at last")


async def test_unknown_step__is_asked_of_another_worker_until_this_one_connects_anew(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel, "one", attempts=1)
    old = await worker.stream(TYPE)
    await old.next_task()
    await old.reject(pb.POLL_WORKER_TASK_REJECT_REASON_UNKNOWN_STEP)
    other = await wire_worker(channel, "worker-b").stream(TYPE)
    assert (await other.next_task()).execute.context.flow_id == "one"
    await _start(channel, "two", attempts=1)
    await old.half_close()
    anew = await worker.stream(TYPE)
    assert (await anew.next_task()).execute.context.flow_id == "two"


async def test_sticky_worker__gets_the_next_task_of_its_flow(
    channel: grpc.aio.Channel, worker: WireWorker
) -> None:
    await _start(channel)
    by_type = await worker.stream(TYPE)
    by_name = await worker.stream(worker.app_worker_id)
    await by_type.next_task()
    again = pb.StepMovement(step_type="Only", step_options=execute_only())
    decision = pb.StepDecision(next_steps=[again])
    response = pb.InvokeExecuteMethodResponse(step_decision=decision)
    await by_type.execute(pb.InvokeExecuteMethodOutput(result=response))
    task = await by_name.next_task()
    assert task.execute.context.step_execution_id == "Only-2"


async def test_late_result__changes_nothing(
    channel: grpc.aio.Channel, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(channel, attempts=2)
    stream = await worker.stream(TYPE)
    late = await stream.next_task()
    engine.skip_time(timedelta(hours=3))  # the attempt times out
    cancel = await stream.read()
    assert cancel is not None
    assert cancel.cancel_task.task_id == late.task_id
    await stream.complete("too late")
    engine.skip_time(timedelta(seconds=1))
    assert (await stream.next_task()).execute.context.attempt == 2
    await stream.complete("in time")
    assert await _result(channel) == ("FLOW_STATUS_COMPLETED", "in time")


@pytest.mark.parametrize(
    "decision",
    [
        pb.StepDecision(),
        pb.StepDecision(next_steps=[pb.StepMovement()]),
        pb.StepDecision(next_steps=[pb.StepMovement(step_type="x" * 1025)]),
        pb.StepDecision(
            next_steps=[pb.StepMovement(step_type="Only")],
            close_decision=pb.CloseDecision(close_decision_type=pb.CLOSE_DECISION_TYPE_DEAD_END),
        ),
        pb.StepDecision(close_decision=pb.CloseDecision()),
        pb.StepDecision(
            next_steps=[
                pb.StepMovement(
                    step_type="Only", step_options=pb.StepOptions(heartbeat_timeout_seconds=9)
                )
            ],
        ),
    ],
)
async def test_malformed_decision__fails_the_attempt(
    channel: grpc.aio.Channel, worker: WireWorker, decision: pb.StepDecision
) -> None:
    await _start(channel, attempts=1)
    stream = await worker.stream(TYPE)
    await stream.next_task()
    response = pb.InvokeExecuteMethodResponse(step_decision=decision)
    await stream.execute(pb.InvokeExecuteMethodOutput(result=response))
    status, message = await _result(channel)
    assert status == "FLOW_STATUS_FAILED"
    assert message


async def test_no_worker_spend__costs_an_attempt_after_ten_seconds(tmp_path: Path) -> None:
    options = EngineOptions(no_worker="spend")
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        await _start(channel, attempts=1)
        engine.skip_time(timedelta(seconds=10))
        assert await _result(channel) == (
            "FLOW_STATUS_FAILED",
            "no Worker took Only-1 within 0:00:10",
        )
