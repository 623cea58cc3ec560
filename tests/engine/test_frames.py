"""What each frame of a Worker counts for."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from dex_agents_dex.devengine.server import roster
from tests.engine.rig import GENEROUS, until
from tests.engine.wire_worker import WireStream, WireWorker, execute_only, wire_worker

TYPE = "Framed"
NEARLY_A_MINUTE, A_MOMENT = timedelta(seconds=59), timedelta(seconds=2)
WRITE = pb.StepStreamWrite(
    stream_name="Events", stream_capacity_bytes=1 << 20, value=pb.Value(string_value="news")
)


async def _start(flows: Any, attempts: int) -> None:
    await flows.StartFlow(
        pb.StartFlowRequest(
            flow_id="f",
            flow_type=TYPE,
            request_id="r",
            start_step_type="Only",
            step_options=execute_only(attempts),
        )
    )


async def _status(flows: Any) -> str:
    ended = await flows.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", wait_time_seconds=20))
    return pb.FlowStatus.Name(ended.flow_status)


async def _write_stream(flows: Any, stream: WireStream, number: int) -> None:
    """Write so often; return when the engine has taken the last one in."""
    for _ in range(number):
        await stream.execute(pb.InvokeExecuteMethodOutput(stream_write=WRITE))
    read, token = 0, ""
    while read < number:
        message = await flows.ReadStream(
            pb.ReadStreamRequest(
                flow_type=TYPE,
                stream_name="Events",
                flow_id="f",
                resume_token=token,
                wait_time_seconds=20,
            )
        )
        read, token = read + 1, message.message.resume_token


async def test_pong__is_no_heartbeat(flows: Any, worker: WireWorker, engine: DevEngine) -> None:
    await _start(flows, attempts=1)
    stream = await worker.stream(TYPE)
    await stream.next_task()
    engine.skip_time(NEARLY_A_MINUTE)
    await stream.send(pong=pb.PollWorkerTaskPong())
    engine.skip_time(A_MOMENT)
    assert await _status(flows) == "FLOW_STATUS_FAILED"


async def test_stream_write__is_a_heartbeat_and_commits_nothing(
    flows: Any, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(flows, attempts=1)
    stream = await worker.stream(TYPE)
    await stream.next_task()
    engine.skip_time(NEARLY_A_MINUTE)
    commits = engine.counts()["commits"]
    await _write_stream(flows, stream, 20)
    assert engine.counts()["commits"] == commits
    engine.skip_time(A_MOMENT)
    await stream.complete("done")
    assert await _status(flows) == "FLOW_STATUS_COMPLETED"


@pytest.mark.parametrize(("last_beat", "value"), [(None, "kept"), ("without a value", "")])
async def test_heartbeat_value__is_kept_by_writes_and_cleared_by_a_beat_without_one(
    flows: Any, worker: WireWorker, engine: DevEngine, last_beat: str | None, value: str
) -> None:
    await _start(flows, attempts=2)
    stream = await worker.stream(TYPE)
    await stream.next_task()
    beat = pb.StepMethodHeartbeat(value=pb.Value(string_value="kept"))
    await stream.execute(pb.InvokeExecuteMethodOutput(heartbeat=beat))
    if last_beat is not None:
        await stream.heartbeat()
    await _write_stream(flows, stream, 1)
    await stream.half_close()
    other = await worker.stream(TYPE)
    engine.skip_time(A_MOMENT)
    context = (await other.next_task()).execute.context
    assert (context.attempt, context.last_heartbeat_value.string_value) == (2, value)


async def test_rpc__passes_the_steps_in_line(
    flows: Any, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(flows, attempts=1)
    asking = asyncio.ensure_future(
        flows.InvokeRPC(pb.InvokeRPCRequest(flow_id="f", rpc_name="ask"))
    )
    await until(lambda: engine.counts()["offers_waiting"] == 2)
    kinds = [
        (await (await worker.stream(TYPE)).next_task()).WhichOneof("request") for _ in range(2)
    ]
    assert kinds == ["rpc", "execute"]
    asking.cancel()


async def test_unknown_rpc__is_asked_of_another_worker(
    flows: Any, worker: WireWorker, channel: grpc.aio.Channel
) -> None:
    await flows.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type=TYPE, request_id="r"))
    first = await worker.stream(TYPE)
    asking = asyncio.ensure_future(
        flows.InvokeRPC(pb.InvokeRPCRequest(flow_id="f", rpc_name="ask"))
    )
    await first.next_task()
    await first.reject(pb.POLL_WORKER_TASK_REJECT_REASON_UNKNOWN_RPC)
    second = await wire_worker(channel, "worker-b").stream(TYPE)
    task = await second.next_task()
    answer = pb.InvokeWorkerRPCResponse(output=pb.Value(string_value="answer"))
    await second.send(task_frame=pb.PollWorkerTaskFrame(task_id=task.task_id, rpc=answer))
    assert (await asking).output.string_value == "answer"


async def test_worker__that_owes_an_answer_to_a_ping_is_given_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster, "PONG_SECONDS", 0.0)
    options = EngineOptions(housekeeping_interval=timedelta(milliseconds=20))
    async with (
        DevEngine(tmp_path / "data", options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        stream = await wire_worker(channel, "worker-a").stream(TYPE)
        assert [await _kind(stream), await _kind(stream)] == ["registered", "ping"]
        await _start(stub, attempts=1)
        await until(lambda: engine.counts()["offers_waiting"] == 1)
        await stream.send(pong=pb.PollWorkerTaskPong())
        async with asyncio.timeout(GENEROUS.total_seconds()):
            while (kind := await _kind(stream)) == "ping":
                pass
        assert kind == "task"


async def _kind(stream: WireStream) -> str | None:
    frame = await stream.read()
    assert frame is not None, "the stream ended"
    kind: str | None = frame.WhichOneof("frame")
    return kind
