"""A Flow that the engine is asked to forget: nothing of it is left, in its file or in its memory."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import (
    AsyncContext,
    Attribute,
    Channel,
    Context,
    FlowNotActiveOrNotFoundError,
    FlowNotFoundError,
    RetryPolicy,
    RPCResult,
    StartFlowOptions,
    Step,
    StepDecision,
    StepOptions,
    Stream,
    dead_end,
    force_fail,
    go_to,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2

from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.server.upkeep_service import FORGET_FLOW_METHOD
from tests.engine.rig import Scenario, rig, step, until

SECRET = "the secret of this Flow"
COLOR, INBOX = Attribute("Color", str), Channel("Inbox", str)
TOLD = Stream("Told", str, 1 << 20)


class _Keeping(Scenario):
    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(COLOR, INBOX, TOLD))
        self.entered, self.gate = asyncio.Event(), asyncio.Event()

    @rpc
    async def look_slowly(self, context: Context) -> RPCResult[str]:
        self.entered.set()
        await self.gate.wait()
        return RPCResult(str(COLOR.get(context)))


async def _forget(address: str, flow_id: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        forget: Any = channel.unary_unary(
            FORGET_FLOW_METHOD,
            request_serializer=pb.StopFlowRequest.SerializeToString,
            response_deserializer=empty_pb2.Empty.FromString,
        )
        await forget(pb.StopFlowRequest(flow_id=flow_id))


def _copies(directory: Path, secret: str) -> int:
    """How often the engine's files hold it."""
    return sum(path.read_bytes().count(secret.encode()) for path in directory.rglob("*.sqlite3*"))


def _telling(end: Callable[[str], StepDecision], ended: list[str]) -> tuple[Step[str], ...]:
    """Steps that leave the input in every place that a Flow has, and over again; ``ended`` has who came to the last."""

    async def keep(context: AsyncContext, given: str) -> StepDecision:
        COLOR.set(context, f"{given}, which is written over")
        INBOX.publish(context, given)
        TOLD.write(context, given)
        return go_to(type(second), given)

    async def keep_more(context: AsyncContext, given: str) -> StepDecision:
        COLOR.set(context, given * 10_000)  # a blob
        return go_to(type(last), given)

    async def stop(context: AsyncContext, given: str) -> StepDecision:
        ended.append(given)
        return end(given)

    slow = StepOptions(execute_retry=RetryPolicy(initial_interval=timedelta(hours=1)))
    second, last = step("Second", keep_more), step("Last", stop, options=slow)
    return step("First", keep), second, last


def _rest(given: str) -> StepDecision:
    return dead_end()


def _raise(given: str) -> StepDecision:
    raise ValueError(given)  # the error of an attempt, and an input that waits for the next


ENDS = {"at rest": _rest, "failed": force_fail, "in backoff": _raise}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_forgotten_flow__leaves_no_byte_in_the_file(
    tmp_path: Path, end: Callable[[str], StepDecision]
) -> None:
    ended: list[str] = []
    flow = _Keeping(*_telling(end, ended))
    data_dir = tmp_path / "data"
    async with DevEngine(data_dir) as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "kept", "what others keep")
        await made.client.start_flow(flow, "forgotten", SECRET)
        await until(lambda: len(ended) == 2 and engine.counts()["tasks_at_workers"] == 0)
        assert _copies(data_dir, SECRET) > 9_000  # some lie over the border of a page

        await _forget(made.address, "forgotten")

        assert _copies(data_dir, SECRET) == 0
        assert _copies(data_dir, "what others keep") > 0
        assert not (await made.client.list_stream_messages("forgotten", TOLD, 10)).messages
        assert len((await made.client.list_stream_messages("kept", TOLD, 10)).messages) == 1
        with pytest.raises(FlowNotFoundError):
            await made.client.describe_flow("forgotten")
        found = (await made.client.search_flows("", 10)).flows
        assert [entry.flow_id for entry in found] == ["kept"]

        again = StartFlowOptions(request_id="the id is free again")
        await made.client.start_flow(flow, "forgotten", "another", again)


async def test_forgotten_flow__takes_what_is_under_way_with_it(tmp_path: Path) -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    async def run(context: AsyncContext, given: str) -> StepDecision:
        began.set()
        try:
            await gate.wait()
        finally:
            COLOR.set(context, SECRET)
        return dead_end()

    flow = _Keeping(step("Only", run))
    data_dir = tmp_path / "data"
    async with DevEngine(data_dir) as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "forgotten", "")
        looking = asyncio.create_task(made.rpc(flow.look_slowly, "forgotten"))
        await began.wait()
        await flow.entered.wait()

        await _forget(made.address, "forgotten")

        with pytest.raises(FlowNotActiveOrNotFoundError):
            await looking
        flow.gate.set()
        gate.set()
        await until(lambda: engine.counts()["tasks_at_workers"] == 0)
        assert _copies(data_dir, SECRET) == 0
        assert engine.counts()["flows_in_memory"] == 0


async def test_forgotten_flow__stays_so_over_a_restart(tmp_path: Path) -> None:
    ended: list[str] = []
    flow = _Keeping(*_telling(_rest, ended))
    data_dir = tmp_path / "data"
    async with DevEngine(data_dir) as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "forgotten", SECRET)
        await until(lambda: len(ended) == 1 and engine.counts()["tasks_at_workers"] == 0)
    async with DevEngine(data_dir) as engine, rig(engine, tmp_path, flow) as made:
        await _forget(made.address, "forgotten")
    async with DevEngine(data_dir) as engine, rig(engine, tmp_path, flow) as made:
        with pytest.raises(FlowNotFoundError):
            await made.client.describe_flow("forgotten")
        assert _copies(data_dir, SECRET) == 0


async def test_forget__of_a_flow_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with DevEngine(tmp_path / "data") as engine:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _forget(engine.address, "nobody")

    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
