"""How an engine ends: Workers finish what they have, and every call is told, none is cut."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine
from tests.engine.rig import GENEROUS, until
from tests.engine.wire_worker import WireStream, WireWorker, execute_only

TYPE = "Ending"


def _start(step_type: str) -> pb.StartFlowRequest:
    return pb.StartFlowRequest(
        flow_id="f",
        flow_type=TYPE,
        request_id="r",
        start_step_type=step_type,
        step_options=execute_only(attempts=1),
    )


async def _kinds(stream: WireStream) -> list[str | None]:
    """The frames that are left, by kind."""
    kinds = []
    while (frame := await stream.read()) is not None:
        kinds.append(frame.WhichOneof("frame"))
    return kinds


async def _told(call: asyncio.Future[Any]) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details()


async def test_stop__asks_workers_to_register_anew_and_ends_their_streams(
    engine: DevEngine, worker: WireWorker
) -> None:
    registered, spare = await worker.stream(TYPE), await worker.stream(TYPE)
    await until(lambda: engine.counts()["worker_streams"] == 2)
    await engine.stop()
    assert await _kinds(registered) == ["registered", "reconnect"]
    assert await _kinds(spare) == []


async def test_stop__gives_workers_time_to_end_their_tasks(
    engine: DevEngine, worker: WireWorker, flows: Any, tmp_path: Path
) -> None:
    await flows.StartFlow(_start("Only"))
    stream = await worker.stream(TYPE)
    await stream.next_task()
    stopping = asyncio.create_task(engine.stop(GENEROUS))
    asked = await stream.read()
    assert asked is not None
    assert asked.WhichOneof("frame") == "reconnect"
    late = asyncio.ensure_future((await worker.stream(TYPE)).read())
    assert await _told(late) == (grpc.StatusCode.UNAVAILABLE, "the dev engine is stopping")
    await stream.complete("done")
    await stopping
    async with (
        DevEngine(tmp_path / "data") as again,
        grpc.aio.insecure_channel(again.address) as channel,
    ):
        stub: Any = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        ended = await stub.WaitForFlow(pb.WaitForFlowRequest(flow_id="f"))
        assert ended.flow_status == pb.FLOW_STATUS_COMPLETED


async def test_stop__tells_those_who_wait(engine: DevEngine, flows: Any) -> None:
    await flows.StartFlow(_start(""))
    calls = [
        asyncio.ensure_future(call)
        for call in (
            flows.WaitForFlow(pb.WaitForFlowRequest(flow_id="f")),
            flows.ReadStream(pb.ReadStreamRequest(flow_type=TYPE, stream_name="S", flow_id="f")),
            flows.InvokeRPC(pb.InvokeRPCRequest(flow_id="f", rpc_name="ask")),
        )
    ]
    await until(lambda: (engine.counts()["polls_waiting"], engine.counts()["rpcs_open"]) == (2, 1))
    await engine.stop()
    expected = (grpc.StatusCode.UNAVAILABLE, "the dev engine is stopping")
    assert [await _told(call) for call in calls] == [expected] * 3


# Whoever imports gRPC first has its reports on standard error, unless told otherwise.
PROGRAM = """
import grpc
import asyncio, sys
from dex.dexpb import dex_pb2 as pb, dex_pb2_grpc
from dex_agents_dex.devengine import DevEngine
from tests.engine.wire_worker import wire_worker

async def main():
    async with DevEngine(sys.argv[1]) as engine:
        channel = grpc.aio.insecure_channel(engine.address)
        stream = await wire_worker(channel, "w").stream("T")
        await stream.read()
        stub = dex_pb2_grpc.FlowServiceStub(channel)
        await stub.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type="T", request_id="r"))
        poll = stub.WaitForFlow(pb.WaitForFlowRequest(flow_id="f"))
        while not engine.counts()["polls_waiting"]:
            await asyncio.sleep(0.01)
    await asyncio.wait({asyncio.ensure_future(poll.code())})
    await channel.close()

asyncio.run(main())
"""


def test_stop__makes_grpc_say_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=GENEROUS.total_seconds(),
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
