"""`make bench-full`: durable sessions next to plain Pydantic AI and to Pydantic AI on DBOS, at length.

What is compared runs in alternation, turn by turn or round by round. Then kills Workers, and lets a
session grow old. Prints the figures and draws a plot.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.chart import Bars, Lines, picture
from benchmarks.fsyncs import fsyncs_per_turn
from benchmarks.growth import Growth, print_growth
from benchmarks.latency import Latency, print_latency
from benchmarks.racing import Laps
from benchmarks.takeover import Takeover, print_takeover
from benchmarks.throughput import Throughput, print_throughput
from benchmarks.turns import kinds, kinds_alone, print_settings

_SMOOTHED_OVER: Final = 9  # turns


async def measure(turns: int, rounds: int) -> str:
    """Print the figures as they come, and return the plot."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        scratch = Path(name)
        latency = Latency()
        await latency.run(kinds_alone(), scratch, turns, rounds)
        print_settings(latency.settings)
        print_latency(latency)
        for kind in kinds():
            if kind != "plain":
                await _print_fsyncs(kind, scratch)
        few, many = Throughput(20, turns_each=3), Throughput(200, turns_each=1)
        for throughput in (few, many):
            await throughput.run(kinds(), scratch, rounds=3)
            print_throughput(throughput)
        takeover = Takeover(turns=(10, turns), kills=5)
        await takeover.run(scratch)
        print_takeover(takeover)
        growth = Growth(age=1000, compared=40)
        await growth.run(scratch)
        print_growth(growth)
    return _drawn(latency, (few, many))


async def _print_fsyncs(kind: str, scratch: Path) -> None:
    counted = await fsyncs_per_turn(kind, scratch)
    print(f"  {kind:8} {'not counted' if counted is None else f'{counted:.1f}'} fsyncs a turn")


def _drawn(latency: Latency, throughputs: Sequence[Throughput]) -> str:
    lines = Lines(
        "one conversation: ms a turn",
        "turn",
        {kind: _smooth(latency.laps, kind) for kind in latency.laps.of},
    )
    bars = [
        Bars(
            f"{each.conversations} at once: turns/s",
            {kind: statistics.median(rates) for kind, rates in each.rates.items()},
        )
        for each in throughputs
    ]
    return picture(lines, bars)


def _smooth(laps: Laps, kind: str) -> list[float]:
    """The median over rounds and over the neighbours of a turn."""
    turns = len(laps.of[kind][0])
    half = _SMOOTHED_OVER // 2
    return [laps.ms(kind, slice(max(turn - half, 0), turn + half + 1)) for turn in range(turns)]


@click.command(help=__doc__)
@click.option("--turns", default=200, show_default=True, help="Turns of the one conversation.")
@click.option("--rounds", default=3, show_default=True, help="How often it is begun anew.")
@click.option(
    "--plot",
    default=Path("build/bench.svg"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
def main(turns: int, rounds: int, plot: Path) -> None:
    drawn = asyncio.run(measure(turns, rounds))
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_text(drawn)
    print(f"\nplot: {plot}")


if __name__ == "__main__":
    main()
