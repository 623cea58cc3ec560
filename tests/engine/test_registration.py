"""When a Worker's stream is registered, and which one is refused."""

import asyncio
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine
from tests.engine.wire_worker import WireWorker, execute_only, wire_worker

TYPE = "Registered"


async def _start(flows: Any, flow_id: str) -> None:
    await flows.StartFlow(
        pb.StartFlowRequest(
            flow_id=flow_id,
            flow_type=TYPE,
            request_id="r",
            start_step_type="Only",
            step_options=execute_only(),
        )
    )


async def test_spare_stream__is_registered_only_when_it_is_needed(
    flows: Any, worker: WireWorker
) -> None:
    first = await worker.stream(TYPE)
    registered = await first.read()
    assert registered is not None
    assert registered.WhichOneof("frame") == "registered"
    spare = await worker.stream(TYPE)
    hearing = asyncio.create_task(spare.read())
    await _start(flows, "one")
    await first.next_task()
    assert not hearing.done()
    await _start(flows, "two")
    heard = await hearing
    assert heard is not None
    assert heard.WhichOneof("frame") == "registered"
    assert (await spare.next_task()).execute.context.flow_id == "two"


async def test_spare_stream__is_registered_when_the_other_one_ends(
    flows: Any, worker: WireWorker
) -> None:
    first = await worker.stream(TYPE)
    await first.read()
    spare = await worker.stream(TYPE)
    await first.half_close()
    heard = await spare.read()
    assert heard is not None
    assert heard.WhichOneof("frame") == "registered"


async def test_stream__of_another_process_with_the_same_id_is_no_spare(
    engine: DevEngine, flows: Any, worker: WireWorker
) -> None:
    old = await worker.stream(TYPE)
    await old.read()
    await _start(flows, "one")
    await old.next_task()
    await old.reject(pb.POLL_WORKER_TASK_REJECT_REASON_UNKNOWN_STEP)
    own_connection = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(engine.address, options=own_connection) as channel:
        newer = await wire_worker(channel, worker.app_worker_id).stream(TYPE)
        heard = await newer.read()
        assert heard is not None
        assert heard.WhichOneof("frame") == "registered"
        assert (await newer.next_task()).execute.context.flow_id == "one"


async def test_stream__that_does_not_register_is_refused(channel: grpc.aio.Channel) -> None:
    stub: Any = dex_pb2_grpc.WorkerTaskServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
    call = stub.PollWorkerTask()
    await call.write(pb.PollWorkerTaskRequest(pong=pb.PollWorkerTaskPong()))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
