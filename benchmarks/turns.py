"""`make bench`: milliseconds a turn and turns a second of a durable session, next to plain Pydantic AI.

Where the packages of the extra `bench` are installed, Pydantic AI on DBOS runs beside them. All keep
the whole history and send it with each model call, so all slow down as it grows.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from benchmarks.latency import Latency, print_latency
from benchmarks.machine import is_installed, settings
from benchmarks.throughput import Throughput, print_throughput


def kinds() -> tuple[str, ...]:
    """Who can run here."""
    return ("plain", "session", *(("dbos",) if is_installed("dbos") else ()))


def kinds_alone() -> tuple[str, ...]:
    """Those of which one conversation is timed."""
    return (*kinds(), "asked", "bare")


def print_settings(described: dict[str, str]) -> None:
    """All that the figures depend on."""
    print(*settings(), sep="\n")
    print("workload: 2 model calls without latency and 3 parallel no-op tools a turn")
    print("engine: a process of its own, SQLite WAL, synchronous=FULL (--durability strict)")
    for kind, words in described.items():
        print(f"  {kind:8} {words}")


async def measure(turns: int, sessions: int, turns_each: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        scratch = Path(name)
        latency = Latency()
        await latency.run(kinds_alone(), scratch, turns, rounds=1)
        print_settings(latency.settings)
        print_latency(latency)
        throughput = Throughput(sessions, turns_each)
        await throughput.run(kinds(), scratch, rounds=3)
        print_throughput(throughput)


@click.command(help=__doc__)
@click.option("--turns", default=60, show_default=True, help="Turns of the one session.")
@click.option("--sessions", default=20, show_default=True, help="Sessions at the same time.")
@click.option("--turns-each", default=2, show_default=True, help="Turns of each in a round.")
def main(turns: int, sessions: int, turns_each: int) -> None:
    asyncio.run(measure(turns, sessions, turns_each))


if __name__ == "__main__":
    main()
