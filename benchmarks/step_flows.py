"""Flows of nothing but Steps, and a client with its Worker on a server of one's choice to run them."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from attrs import define, frozen
from dex import (
    AsyncClient,
    AsyncContext,
    AsyncWorker,
    Attribute,
    BlobCacheConfig,
    ClientOptions,
    Context,
    Flow,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    Timer,
    Wait,
    WorkerOptions,
    WorkerTarget,
    go_to,
    graceful_complete,
    open_blob_cache,
    rpc,
)

COUNT = Attribute("Count", int)
LONG = timedelta(seconds=60)


class Run(Step[int]):
    """Goes on to itself `left` times."""

    async def execute(self, context: AsyncContext, left: int) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return go_to(Run, left - 1) if left > 1 else graceful_complete("done")


class WaitAndRun(Step[int]):
    async def wait_for(self, context: AsyncContext, left: int) -> Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return Wait.skip_immediately()

    async def execute(self, context: AsyncContext, left: int) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return go_to(WaitAndRun, left - 1) if left > 1 else graceful_complete("done")


class Sleep(Step[int]):
    """Waits for a day; `asleep` counts those that do."""

    asleep = asyncio.Semaphore(0)

    async def wait_for(self, context: AsyncContext, _: int) -> Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        Sleep.asleep.release()
        return Wait.until(Timer.by_duration(timedelta(days=1)))

    async def execute(self, context: AsyncContext, _: int) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return graceful_complete("woken")


class Execute(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Run())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(COUNT)

    @rpc
    def count(self, context: Context) -> RPCResult[int]:
        return RPCResult(COUNT.get(context) or 0)


class WaitThenExecute(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(WaitAndRun())


class Sleeping(Flow[int]):
    def get_steps(self) -> StepList[int]:
        return StepList.start_step(Sleep())


EXECUTE, WAITING, SLEEPING = Execute(), WaitThenExecute(), Sleeping()


@define
class Bench:
    """A client with its Worker, on a server whose state is in `data_dir`."""

    name: str
    client: AsyncClient
    data_dir: Path
    server_pid: int
    flows: int = 0

    async def run(self, flow: Flow[int], steps: int) -> None:
        """One Flow of so many Steps, from its start to its result."""
        self.flows += 1
        flow_id = f"{self.name}-{self.flows}"
        await self.client.start_flow(flow, flow_id, steps)
        await self.client.wait_for_flow(flow_id, LONG)

    async def run_many(self, flows: int, at_once: int, steps: int) -> None:
        turns = asyncio.Semaphore(at_once)

        async def one() -> None:
            async with turns:
                await self.run(EXECUTE, steps)

        await asyncio.gather(*(one() for _ in range(flows)))

    async def open_many(self, flows: int, at_once: int) -> None:
        """Flows that wait, each with its Timer."""
        turns = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with turns:
                await self.client.start_flow(SLEEPING, f"{self.name}-open-{number}", 0)

        await asyncio.gather(*(one(number) for number in range(flows)))
        for _ in range(flows):
            await Sleep.asleep.acquire()

    async def query(self) -> None:
        await self.client.invoke_rpc(EXECUTE.count, f"{self.name}-1")

    def size_bytes(self) -> int:
        """Of the store; exact when its engine has stopped."""
        return sum(file.stat().st_size for file in self.data_dir.iterdir())


@frozen
class Server:
    address: str
    pid: int


Serve: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Server]]
"""A server that runs as a process of its own, with its state in a directory."""


def engine_on(data_dir: Path) -> AbstractAsyncContextManager[Server]:
    return _process("dex_agents_dex.devengine", "--port", "0", "--data-dir", str(data_dir))


def null_server_on(_: Path) -> AbstractAsyncContextManager[Server]:
    """It keeps nothing; see there."""
    return _process("benchmarks.null_server")


@asynccontextmanager
async def _process(module: str, *options: str) -> AsyncIterator[Server]:
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *options), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        yield Server(json.loads(await server.stdout.readline())["address"], server.pid)
    finally:
        server.terminate()
        await server.wait()


@asynccontextmanager
async def bench(
    name: str, scratch: Path, store: str, serve: Serve = engine_on, *, idle_streams: int = 1
) -> AsyncIterator[Bench]:
    """The SDK ends a stream that is between two tasks while `idle_streams` others of its queue are.

    With one, its default, about two Steps are ever under way, however many Flows there are.
    """
    data_dir = scratch / store
    async with serve(data_dir) as server:
        registry = Registry([EXECUTE, WAITING, SLEEPING], allow_async_handlers=True)
        cache = open_blob_cache(BlobCacheConfig(str(scratch / f"cache-{store}"), 1 << 24))
        pull = PullWorkerOptions(max_concurrent_tasks=16, idle_streams_per_queue=idle_streams)
        worker = AsyncWorker(
            registry, cache, WorkerOptions(server_address=server.address, pull=pull)
        )
        options = ClientOptions(
            server_address=server.address, worker_target=WorkerTarget(pull=True)
        )
        async with AsyncClient(registry, cache, options) as client:
            running = asyncio.create_task(worker.start())
            await worker.wait_pull_registered(30)
            made = Bench(name, client, data_dir, server.pid)
            await made.run(EXECUTE, 50)  # warms up; its Flow is asked by every query
            yield made
            await worker.stop()
            await running


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
