"""Steps and RPCs on the dev engine, timed: `python -m benchmarks.engine_steps [--steps N] [--flows N]`.

The engine is a process of its own; Worker and client share this one. Durability is strict: each Step
is one fsynced transaction, or part of one. Two engines run side by side, one on an empty store and
one on a store of many Flows; they are timed in turns, so that whatever else the machine does meets
both. A third runs in turns with a server that does nothing but hand out Steps (`null_server.py`), which
shows what gRPC and the SDK leave to any engine.
"""

import asyncio
import logging
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from benchmarks.ceiling import print_ceiling
from benchmarks.step_flows import EXECUTE, WAITING, Bench, bench, engine_on, seconds

ROUNDS = 9
CALLERS = 20
FILL_FLOWS_AT_ONCE = 100


async def print_speed(on: Bench, steps: int) -> None:
    for flow, what in ((EXECUTE, "execute only"), (WAITING, "wait_for + execute")):
        took = [await seconds(partial(on.run, flow, steps)) * 1000 / steps for _ in range(ROUNDS)]
        print(f"{what:<22} {statistics.median(took):7.2f} ms a Step, best round {min(took):.2f}")
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
        await print_ceiling(scratch, steps)
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
