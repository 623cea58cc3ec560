"""What gRPC and the SDK leave to any engine: the dev engine beside a server that only hands out Steps.

One program is client and Worker of both, and times them in turns, so that whatever else the machine
does meets both.
"""

import os
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from attrs import Factory, define

from benchmarks.machine import cpu_seconds
from benchmarks.step_flows import EXECUTE, Bench, bench, null_server_on, seconds

FLOWS: Final = 50
_ROUNDS: Final = 9
_IDLE_STREAMS: Final = 15
"""As many as there are Steps at once, so that no stream ends. A lone Step needs none of them, and the
SDK looks at all of them for each task."""


@define
class _Laps:
    """One figure a round of each; of all Flows at once, but for `alone_ms`."""

    steps_per_second: list[float] = Factory(list)
    server_cpu_ms: list[float] = Factory(list)  # a Step
    program_cpu_ms: list[float] = Factory(list)  # a Step, of client and Worker
    alone_ms: list[float] = Factory(list)  # a Step

    async def add_many(self, on: Bench, steps: int) -> None:
        """A round of Flows of so many Steps."""
        program = os.getpid()
        server_before, program_before = cpu_seconds([on.server_pid]), cpu_seconds([program])
        took = await seconds(partial(on.run_many, FLOWS, FLOWS, steps))
        total = FLOWS * steps
        self.steps_per_second.append(total / took)
        self.server_cpu_ms.append(1000 * (cpu_seconds([on.server_pid]) - server_before) / total)
        self.program_cpu_ms.append(1000 * (cpu_seconds([program]) - program_before) / total)

    async def add_alone(self, on: Bench, steps: int) -> None:
        self.alone_ms.append(1000 * await seconds(partial(on.run, EXECUTE, steps)) / steps)


async def print_ceiling(scratch: Path, steps: int) -> None:
    engine, null = _Laps(), _Laps()
    async with _both(scratch, "many", _IDLE_STREAMS) as (on_engine, on_null):
        for _ in range(_ROUNDS):
            await engine.add_many(on_engine, steps // 10)
            await null.add_many(on_null, steps // 10)
    async with _both(scratch, "alone", 1) as (on_engine, on_null):
        for _ in range(_ROUNDS):
            await engine.add_alone(on_engine, steps)
            await null.add_alone(on_null, steps)
    print(f"\n{FLOWS} Flows at once, and one alone: {_ROUNDS} rounds of each server in turns")
    print(" " * 14 + "  Steps/s   best   CPU ms a Step: server, program   alone, ms a Step   best")
    for name, laps in (("dev engine", engine), ("null server", null)):
        print(
            f"{name:<14}{statistics.median(laps.steps_per_second):9.0f}"
            f"{max(laps.steps_per_second):7.0f}"
            f"{statistics.median(laps.server_cpu_ms):24.2f}"
            f"{statistics.median(laps.program_cpu_ms):9.2f}"
            f"{statistics.median(laps.alone_ms):19.2f}{min(laps.alone_ms):7.2f}"
        )
    at_once = _ratio(engine.steps_per_second, null.steps_per_second)
    alone = _ratio(engine.alone_ms, null.alone_ms)
    print(f"{'engine / null':<14}{at_once:9.2f}{alone:59.2f}\n")


@asynccontextmanager
async def _both(scratch: Path, what: str, idle_streams: int) -> AsyncIterator[tuple[Bench, Bench]]:
    async with (
        bench("engine", scratch, f"engine-{what}", idle_streams=idle_streams) as on_engine,
        bench(
            "null", scratch, f"null-{what}", null_server_on, idle_streams=idle_streams
        ) as on_null,
    ):
        for on in (on_engine, on_null):
            await on.run_many(FLOWS, FLOWS, 5)  # opens the streams
        yield on_engine, on_null


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(one, other, strict=True))
