"""Steps and RPCs on the dev engine, timed: `python -m benchmarks.engine_steps [--steps N] [--flows N]`.

The engine is a process of its own; Worker and client share this one. Durability is strict: each Step
is one fsynced transaction, or part of one. Two engines run side by side, one on an empty store and
one on a store of many Flows; they are timed in turns, so that whatever else the machine does meets
both.
"""

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import click
from attrs import define
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

ROUNDS = 9
PARALLEL_FLOWS = 50
CALLERS = 20
FILL_FLOWS_AT_ONCE = 100
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
    """A client with its Worker, on an engine whose state is in `data_dir`."""

    name: str
    client: AsyncClient
    data_dir: Path
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


@asynccontextmanager
async def engine_on(data_dir: Path) -> AsyncIterator[str]:
    """The address of an engine process."""
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents_dex.devengine"),
        *("--port", "0", "--data-dir", str(data_dir)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert engine.stdout is not None
    try:
        yield json.loads(await engine.stdout.readline())["address"]
    finally:
        engine.terminate()
        await engine.wait()


@asynccontextmanager
async def bench(name: str, scratch: Path, store: str) -> AsyncIterator[Bench]:
    data_dir = scratch / store
    async with engine_on(data_dir) as address:
        registry = Registry([EXECUTE, WAITING, SLEEPING], allow_async_handlers=True)
        cache = open_blob_cache(BlobCacheConfig(str(scratch / f"cache-{store}"), 1 << 24))
        pull = PullWorkerOptions(max_concurrent_tasks=16)
        worker = AsyncWorker(registry, cache, WorkerOptions(server_address=address, pull=pull))
        options = ClientOptions(server_address=address, worker_target=WorkerTarget(pull=True))
        async with AsyncClient(registry, cache, options) as client:
            running = asyncio.create_task(worker.start())
            await worker.wait_pull_registered(30)
            made = Bench(name, client, data_dir)
            await made.run(EXECUTE, 50)  # warms up; its Flow is asked by every query
            yield made
            await worker.stop()
            await running


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def print_speed(on: Bench, steps: int) -> None:
    for flow, what in ((EXECUTE, "execute only"), (WAITING, "wait_for + execute")):
        took = [await seconds(partial(on.run, flow, steps)) * 1000 / steps for _ in range(ROUNDS)]
        print(f"{what:<22} {statistics.median(took):7.2f} ms a Step, best round {min(took):.2f}")
    many = partial(on.run_many, PARALLEL_FLOWS, PARALLEL_FLOWS, steps // 10)
    rates = [PARALLEL_FLOWS * (steps // 10) / await seconds(many) for _ in range(ROUNDS)]
    best = f"best round {max(rates):.0f}"
    print(f"{PARALLEL_FLOWS} Flows at once{statistics.median(rates):14.0f} Steps/s, {best}")
    alone = [await seconds(on.query) for _ in range(steps)]
    best = f"best {min(alone) * 1000:.2f}"
    print(f"{'query RPC':<22} {statistics.median(alone) * 1000:7.2f} ms, {best}")

    async def query_again() -> None:
        for _ in range(steps // CALLERS):
            await on.query()

    async def query_at_once() -> None:
        await asyncio.gather(*(query_again() for _ in range(CALLERS)))

    calls = CALLERS * (steps // CALLERS)
    rates = [calls / await seconds(query_at_once) for _ in range(ROUNDS)]
    best = f"best round {max(rates):.0f}"
    print(f"{CALLERS} callers at once{statistics.median(rates):12.0f} RPCs/s, {best}")


async def print_growth(small: Bench, large: Bench, steps: int) -> None:
    """The time of a Step on both stores, in turns; the median of the ratio within a turn."""
    for flow, what in ((EXECUTE, "execute only"), (WAITING, "wait_for + execute")):
        ratios = []
        for _ in range(ROUNDS):
            first = await seconds(partial(small.run, flow, steps))
            ratios.append(await seconds(partial(large.run, flow, steps)) / first)
        print(f"growth, {what:<20} {statistics.median(ratios):.2f} in time, over {ROUNDS} turns")


async def bytes_per_step(scratch: Path, store: str, steps: int) -> float:
    """What a Flow of so many Steps leaves, between two stops of the engine."""
    async with bench(f"{store}-before", scratch, store) as on:
        pass
    before = on.size_bytes()
    async with bench(f"{store}-after", scratch, store) as on:
        await on.run_many(20, 20, steps)
    return (on.size_bytes() - before) / (20 * steps + 50)


async def print_restart(scratch: Path, flows: int) -> None:
    """How long an engine takes to listen on a store of Flows that wait, and on none."""
    async with bench("open", scratch, "open") as on:
        await on.open_many(flows, FILL_FLOWS_AT_ONCE)

    async def median_start(store: str) -> float:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            async with engine_on(scratch / store):
                took.append(time.perf_counter() - began)
        return statistics.median(took)

    alone, with_flows = await median_start("none"), await median_start("open")
    print(f"start on {flows} open Flows {with_flows:8.2f} s, on none {alone:.2f} s")


async def compare(steps: int, flows: int) -> None:
    logging.getLogger("dex").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        async with bench("s", scratch, "small") as small, bench("l", scratch, "large") as large:
            await print_speed(small, steps)
            await large.run_many(flows, FILL_FLOWS_AT_ONCE, 1)
            await print_growth(small, large, steps)
        few = await bytes_per_step(scratch, "empty", steps)
        many = await bytes_per_step(scratch, "large", steps)
        print(f"{'on disk':<22} {few:7.0f} bytes a Step")
        print(f"{'growth, on disk':<28} {many / few:.3f} in bytes, after {flows} Flows")
        await print_restart(scratch, flows)


@click.command(help=__doc__)
@click.option("--steps", default=300, show_default=True, help="Steps of a Flow that is timed.")
@click.option("--flows", default=10_000, show_default=True, help="Flows of the large store.")
def main(steps: int, flows: int) -> None:
    asyncio.run(compare(steps, flows))


if __name__ == "__main__":
    main()
