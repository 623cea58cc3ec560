"""What a lost task costs, by the kind of method that it ran and by what the engine was told."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from dex_agents_dex.devengine.options import Redelivery
from tests.engine.wire_worker import WireWorker, wire_worker

TYPE = "Wired"
TIMEOUT = timedelta(seconds=5)

Method = Literal["wait_for", "execute", "timeout handler"]
Loss = Literal["half-closed", "cut", "cut after a beat"]


def _start(method: Method) -> pb.StartFlowRequest:
    request = pb.StartFlowRequest(flow_id="f", flow_type=TYPE, request_id="r")
    if method == "timeout handler":
        request.flow_timeout_seconds = TIMEOUT.seconds
        request.flow_timeout_policy = pb.FLOW_TIMEOUT_POLICY_HANDLER
    else:
        request.start_step_type = "Only"
        request.step_options.skip_wait_for = method == "execute"
    return request


async def _beat(worker_stream: Any, method: Method) -> None:
    frame = pb.PollWorkerTaskFrame(task_id=worker_stream.task.task_id)
    beating = frame.wait_for if method == "wait_for" else frame.execute
    beating.heartbeat.SetInParent()
    await worker_stream.send(task_frame=frame)


@pytest.mark.parametrize("method", ["wait_for", "execute", "timeout handler"])
@pytest.mark.parametrize(
    ("redelivery", "loss", "attempt"),
    [
        ("spend", "half-closed", 1),
        ("spend", "cut", 2),
        ("spend", "cut after a beat", 2),
        ("same-attempt", "half-closed", 1),
        ("same-attempt", "cut", 1),
        ("same-attempt", "cut after a beat", 2),
    ],
)
async def test_lost_task__of_a_step_costs_an_attempt_unless_it_surely_never_began(
    tmp_path: Path, method: Method, redelivery: Redelivery, loss: Loss, attempt: int
) -> None:
    options = EngineOptions(redelivery=redelivery)
    async with (
        DevEngine(tmp_path, options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        flows: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        await flows.StartFlow(_start(method))
        engine.skip_time(TIMEOUT)
        stream = await wire_worker(channel, "lost").stream(TYPE)
        await stream.next_task()
        if loss == "cut after a beat":
            await _beat(stream, method)
            await flows.GetFlowSummary(pb.GetFlowSummaryRequest(flow_id="f"))  # it was read
        if loss == "half-closed":
            await stream.half_close()
        else:
            stream.cut()
        task = await (await wire_worker(channel, "next").stream(TYPE)).next_task()
        given = task.wait_for if method == "wait_for" else task.execute
        assert given.context.attempt == attempt


async def test_lost_task__of_an_rpc_is_told_to_its_caller_and_frees_its_lock(
    flows: Any, worker: WireWorker
) -> None:
    await flows.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type=TYPE, request_id="r"))
    locking = pb.InvokeRPCRequest(flow_id="f", rpc_name="n", lock_attribute_keys=["key"])
    lost = asyncio.ensure_future(flows.InvokeRPC(locking))
    stream = await worker.stream(TYPE)
    await stream.next_task()
    stream.cut()
    with pytest.raises(grpc.aio.AioRpcError, match="disconnected while it ran RPC 'n'") as told:
        await lost
    assert told.value.code() is grpc.StatusCode.FAILED_PRECONDITION

    again = asyncio.ensure_future(flows.InvokeRPC(locking))
    stream = await worker.stream(TYPE)
    task = await stream.next_task()
    output = pb.Value(string_value="out")
    answer = pb.InvokeWorkerRPCResponse(output=output)
    await stream.send(task_frame=pb.PollWorkerTaskFrame(task_id=task.task_id, rpc=answer))
    assert (await again).output == output
