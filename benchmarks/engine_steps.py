"""Milliseconds per Step on the dev engine: `python -m benchmarks.engine_steps [--split] [--steps N]`.

Worker and client run in this process; the engine too, or, with `--split`, in one of its own.
Durability is strict: each Step is one fsynced transaction, or part of one.
"""

import argparse
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
    Wait,
    WorkerOptions,
    WorkerTarget,
    go_to,
    graceful_complete,
    open_blob_cache,
    rpc,
)

from dex_agents_dex.devengine import DevEngine

ROUNDS = 5
PARALLEL_FLOWS = 20
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


@asynccontextmanager
async def engine_address(scratch: Path, is_split: bool) -> AsyncIterator[str]:
    if not is_split:
        async with DevEngine(scratch / "data") as engine:
            yield engine.address
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents_dex.devengine"),
        *("--port", "0", "--data-dir", str(scratch / "data")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["address"]
    finally:
        process.terminate()
        await process.wait()


async def milliseconds(work: Callable[[], Awaitable[object]], count: int) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000 / count


async def median_of_rounds(client: AsyncClient, flow: Flow[int], steps: int) -> float:
    name = flow.get_flow_type()
    return statistics.median(
        [
            await milliseconds(partial(run, client, flow, f"{name}-{number}", steps), steps)
            for number in range(ROUNDS)
        ]
    )


async def run(client: AsyncClient, flow: Flow[int], flow_id: str, steps: int) -> None:
    await client.start_flow(flow, flow_id, steps)
    await client.wait_for_flow(flow_id, LONG)


async def measure(
    client: AsyncClient, execute: Execute, waiting: WaitThenExecute, steps: int
) -> dict[str, float]:
    steps_each = max(1, steps // 10)

    async def run_in_parallel() -> None:
        ids = [f"parallel-{number}" for number in range(PARALLEL_FLOWS)]
        await asyncio.gather(*(run(client, execute, flow_id, steps_each) for flow_id in ids))

    async def query() -> None:
        await client.invoke_rpc(execute.count, "warm")

    await run(client, execute, "warm", 50)
    return {
        "execute only": await median_of_rounds(client, execute, steps),
        "wait_for + execute": await median_of_rounds(client, waiting, steps),
        f"{PARALLEL_FLOWS} Flows at once": await milliseconds(
            run_in_parallel, PARALLEL_FLOWS * steps_each
        ),
        "query RPC": statistics.median([await milliseconds(query, 1) for _ in range(steps)]),
    }


async def compare(steps: int, is_split: bool) -> None:
    logging.getLogger("dex").setLevel(logging.ERROR)
    execute, waiting = Execute(), WaitThenExecute()
    registry = Registry([execute, waiting], allow_async_handlers=True)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        async with engine_address(scratch, is_split) as address:
            cache = open_blob_cache(BlobCacheConfig(str(scratch / "cache"), 1 << 24))
            worker = AsyncWorker(
                registry,
                cache,
                WorkerOptions(
                    server_address=address, pull=PullWorkerOptions(max_concurrent_tasks=8)
                ),
            )
            target = WorkerTarget(pull=True)
            options = ClientOptions(server_address=address, worker_target=target)
            async with AsyncClient(registry, cache, options) as client:
                running = asyncio.create_task(worker.start())
                await worker.wait_pull_registered(30)
                measured = await measure(client, execute, waiting, steps)
                for what, took in measured.items():
                    print(f"{what:<20} {took:6.2f} ms")
                await worker.stop()
                await running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", action="store_true", help="engine in a process of its own")
    parser.add_argument("--steps", type=int, default=300, help="Steps per Flow")
    arguments = parser.parse_args()
    asyncio.run(compare(arguments.steps, arguments.split))


if __name__ == "__main__":
    main()
