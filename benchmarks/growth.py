"""What turn 1,000 costs against turn 10, with a window that keeps the model's input the same.

Both sessions live on one engine and one Worker, and take turns in alternation: the old one is about
its thousandth turn when the young one is about its tenth.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import Factory, define, frozen

from benchmarks.machine import written_bytes
from benchmarks.racing import Contender, contender, running_engine
from benchmarks.wire_meter import wire_meter

_YOUNG: Final = 0
_OLD: Final = 1
_BEFORE: Final = 5  # turns of the young session, after which it is compacted now and then


@frozen
class Turn:
    """What one turn took, and how far a counter went on meanwhile."""

    ms: float
    counted: int


@define
class Comparison:
    """Turns of the young and of the old session, in alternation."""

    young: list[Turn] = Factory(list)
    old: list[Turn] = Factory(list)

    async def run(self, on: Contender, turns: int, count: Callable[[], int]) -> None:
        for _ in range(turns):
            self.young.append(await _turn(on, _YOUNG, count))
            self.old.append(await _turn(on, _OLD, count))

    def ms(self) -> tuple[float, float]:
        return _mean([turn.ms for turn in self.young]), _mean([turn.ms for turn in self.old])

    def counted(self) -> tuple[float, float]:
        return (
            _mean([turn.counted for turn in self.young]),
            _mean([turn.counted for turn in self.old]),
        )


@define
class Growth:
    """So many turns of each are compared; a fifth to a half of them compact."""

    age: int
    compared: int
    timed: Comparison = Factory(Comparison)
    """Counts what the engine wrote to the disk."""
    metered: Comparison = Factory(Comparison)
    """Later turns, through a relay, which counts what passes."""

    async def run(self, scratch: Path) -> None:
        data_dir = Path(tempfile.mkdtemp(dir=scratch))
        async with running_engine(data_dir) as (engine, address):
            async with contender("window", scratch, 2, address) as direct:
                for session, turns in ((_YOUNG, _BEFORE), (_OLD, self.age - self.compared // 2)):
                    for _ in range(turns):
                        await direct.turn(session)
                await self.timed.run(direct, self.compared, lambda: written_bytes([engine.pid]))
            async with (
                wire_meter(address) as meter,
                contender("window", scratch, 2, meter.address) as relayed,
            ):
                await self.metered.run(relayed, self.compared, lambda: meter.passed_bytes)


def print_growth(taken: Growth) -> None:
    print(
        f"\na session's turn {taken.age} against another's turn 10, both compacted now and then;"
        f" means of {taken.compared} turns each, in alternation"
    )
    for what, (young, old), unit in (
        ("latency", taken.timed.ms(), "ms"),
        ("written to disk", _kib(taken.timed.counted()), "KiB"),
        ("moved on the wire", _kib(taken.metered.counted()), "KiB"),
    ):
        print(f"  {what:18}{young:8.1f} {unit}, then {old:8.1f} {unit}: {old / young:.2f}")


def _kib(sizes: tuple[float, float]) -> tuple[float, float]:
    return sizes[0] / 1024, sizes[1] / 1024


def _mean(values: list[float] | list[int]) -> float:
    """Of all but the largest twentieth, in which the rest of the machine shows."""
    kept = sorted(values)[: len(values) - len(values) // 20]
    return statistics.mean(kept)


async def _turn(on: Contender, session: int, count: Callable[[], int]) -> Turn:
    before = count()
    ms = await on.turn(session)
    return Turn(ms, count() - before)
