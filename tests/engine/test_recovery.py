"""What a restart makes of an attempt that was on its way, by a Worker made by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
from attrs import define
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine import DevEngine, EngineOptions
from tests.engine.wire_worker import WireWorker, execute_only, wire_worker

TYPE = "Wired"


@define
class _Running:
    engine: DevEngine
    flows: Any
    worker: WireWorker

    async def start(self, options: pb.StepOptions) -> None:
        await self.flows.StartFlow(
            pb.StartFlowRequest(
                flow_id="f",
                flow_type=TYPE,
                request_id="r",
                start_step_type="Only",
                step_options=options,
            )
        )


@asynccontextmanager
async def _engine(data: Path, options: EngineOptions | None = None) -> AsyncIterator[_Running]:
    async with (
        DevEngine(data, options=options) as engine,
        grpc.aio.insecure_channel(engine.address) as channel,
    ):
        flows = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        yield _Running(engine, flows, wire_worker(channel, "worker"))


async def test_restart__offers_a_later_attempt_that_was_given_back_with_its_lock(
    tmp_path: Path,
) -> None:
    locking = execute_only()
    locking.execute_lock_attribute_keys.append("key")
    async with _engine(tmp_path) as running:
        await running.start(locking)
        stream = await running.worker.stream(TYPE)
        await stream.next_task()
        await stream.fail("first")
        running.engine.skip_time(timedelta(seconds=2))
        assert (await stream.next_task()).execute.context.attempt == 2
        await stream.half_close()
    async with _engine(tmp_path) as running:
        task = await (await running.worker.stream(TYPE)).next_task()
        assert task.execute.context.attempt == 2


async def test_restart__of_a_task_that_was_given_back_by_one_before_spends_nothing(
    tmp_path: Path,
) -> None:
    lenient = EngineOptions(redelivery="same-attempt")
    async with _engine(tmp_path, lenient) as running:
        await running.start(execute_only(attempts=1))
        await (await running.worker.stream(TYPE)).next_task()
        await running.engine.stop()
    async with _engine(tmp_path, lenient):
        pass  # no Worker comes
    async with _engine(tmp_path) as running:
        task = await (await running.worker.stream(TYPE)).next_task()
        assert task.execute.context.attempt == 1
