"""`make bench-memory`: 2,000 turns of one session, and what its Worker and its engine hold meanwhile.

The model's input is kept the same by compaction. Exit code 1 when the last third of the turns needs
more memory than the third before it.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from attrs import Factory, define

from benchmarks.machine import memory_bytes, settings
from benchmarks.racing import contender

_SAMPLE_EVERY: Final = 20  # turns
_PRINT_EVERY: Final = 200  # turns
_LARGEST_GROWTH: Final = 1.05


@define
class Memory:
    """What each process held, sample by sample."""

    samples: dict[str, list[int]] = Factory(dict)

    async def run(self, scratch: Path, turns: int) -> None:
        async with contender("window", scratch) as on:
            for turn in range(1, turns + 1):
                ms = await on.turn()
                if turn % _SAMPLE_EVERY == 0:
                    for role, pid in on.processes.items():
                        self.samples.setdefault(role, []).append(memory_bytes(pid))
                if turn % _PRINT_EVERY == 0:
                    held = ", ".join(f"{role} {_mib(s[-1])}" for role, s in self.samples.items())
                    print(f"  turn {turn:5}  {held} MiB; the turn took {ms:.0f} ms", flush=True)

    def growth(self, role: str) -> float:
        """The last third by the middle one."""
        samples = self.samples[role]
        third = len(samples) // 3
        return statistics.median(samples[-third:]) / statistics.median(samples[third:-third])


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"


def _report(memory: Memory, roles: Sequence[str]) -> int:
    grown = {role: memory.growth(role) for role in roles}
    for role, growth in grown.items():
        print(f"  {role}: the last third needs {growth:.3f} of the middle third")
    return int(any(growth > _LARGEST_GROWTH for growth in grown.values()))


@click.command(help=__doc__)
@click.option("--turns", default=2000, show_default=True, type=click.IntRange(min=200))
def main(turns: int) -> None:
    print(*settings(), sep="\n")
    memory = Memory()
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        asyncio.run(memory.run(Path(scratch), turns))
    sys.exit(_report(memory, list(memory.samples)))


if __name__ == "__main__":
    main()
