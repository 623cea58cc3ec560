"""How an engine ends: Workers finish what they have, and every call is told, none is cut."""

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import AsyncContext, DexServiceError, StepDecision, graceful_complete
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine
from tests.engine.rig import GENEROUS, Rig, Scenario, free_port, rig_at, step, until
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


@pytest.mark.parametrize(("is_in_time", "attempt"), [(True, 1), (False, 2)])
async def test_sigterm__while_a_worker_is_at_work_ends_the_command_in_order(
    tmp_path: Path, is_in_time: bool, attempt: int
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(context: AsyncContext, given: str) -> StepDecision:
        begun.set()
        await may_end.wait()
        return graceful_complete(f"attempt {context.attempt}")

    flow = Scenario(step("Working", work))
    port = free_port()
    command = (
        *(sys.executable, "-m", "dex_agents_dex.devengine"),
        *("--port", str(port), "--data-dir", str(tmp_path / "data")),
    )
    async with rig_at(f"127.0.0.1:{port}", tmp_path, flow) as made:
        first = await _started(command)
        async with made.worker():
            await made.client.start_flow(flow, "f", "")
            await begun.wait()
            first.terminate()
            if is_in_time:
                may_end.set()
            assert (await first.wait(), await _said(first)) == (0, b"")
            may_end.set()
            second = await _started(command)
            try:
                assert await _outputs(made) == [("Working-1", f"attempt {attempt}")]
            finally:
                second.terminate()
                await second.wait()


async def _outputs(made: Rig) -> list[tuple[str, Any]]:
    """Of the Flow, asked by a client that was refused while there was no engine."""
    async with asyncio.timeout(GENEROUS.total_seconds()):
        while True:
            with suppress(DexServiceError):
                return await made.outputs("f")


async def _started(command: tuple[str, ...]) -> asyncio.subprocess.Process:
    """The engine's process, once it is ready."""
    engine = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    assert engine.stdout is not None
    assert (await engine.stdout.readline()).startswith(b"dev engine ready")
    return engine


async def _said(engine: asyncio.subprocess.Process) -> bytes:
    assert engine.stderr is not None
    return await engine.stderr.read()
