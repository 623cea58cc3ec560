"""Milliseconds a turn of one conversation, next to its peers and to what the engine needs for its Steps."""

from __future__ import annotations

import logging
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from attrs import Factory, define

from benchmarks.racing import Contender, Laps, contender, race
from benchmarks.step_flows import EXECUTE, WAITING, Bench, bench, seconds
from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    WAIT_FOR_COMPLETED_EVENT,
    read_step_history,
)

EARLY: Final = slice(5, 15)
"""Turns 6 to 15: their middle is turn 10."""
LATE: Final = slice(-10, None)
_FLOOR_EVERY: Final = 10  # turns
_FLOOR_STEPS: Final = 100


@define
class Floor:
    """What the engine alone needs for a Step, each sample taken between two turns of the race."""

    execute_ms: list[float] = Factory(list)
    wait_ms: list[float] = Factory(list)
    execute_steps: float = 0.0
    """Of one turn: Steps that only execute."""
    wait_steps: float = 0.0
    """Of one turn: Steps that wait first."""

    async def sample(self, on: Bench, turn: int) -> None:
        if turn % _FLOOR_EVERY == 0:
            for flow, taken in ((EXECUTE, self.execute_ms), (WAITING, self.wait_ms)):
                took = await seconds(partial(on.run, flow, _FLOOR_STEPS))
                taken.append(1000 * took / _FLOOR_STEPS)

    async def count_steps(self, address: str, turns: int) -> None:
        """Take from a session's history what a turn of it consists of."""
        history = await read_step_history(address, "session-0")
        executed = sum(each.event_type == EXECUTE_COMPLETED_EVENT for each in history)
        waited = sum(each.event_type == WAIT_FOR_COMPLETED_EVENT for each in history)
        self.execute_steps = (executed - waited) / turns
        self.wait_steps = waited / turns

    def of_a_turn_ms(self) -> float:
        """The Steps of a turn, one after the other."""
        return self.execute_steps * statistics.median(
            self.execute_ms
        ) + self.wait_steps * statistics.median(self.wait_ms)


@define
class Latency:
    """One conversation of each contender, over some rounds."""

    laps: Laps = Factory(Laps)
    floor: Floor = Factory(Floor)
    settings: dict[str, str] = Factory(dict)
    peak_memory_bytes: dict[str, dict[str, int]] = Factory(dict)
    stored_bytes_per_turn: dict[str, float] = Factory(dict)

    async def run(self, kinds: Sequence[str], scratch: Path, turns: int, rounds: int) -> None:
        logging.getLogger("dex").setLevel(logging.ERROR)
        for _ in range(rounds):
            below = Path(tempfile.mkdtemp(dir=scratch))
            async with AsyncExitStack() as stack:
                on = await stack.enter_async_context(bench("floor", below, "floor"))
                entered = [
                    await stack.enter_async_context(contender(kind, below)) for kind in kinds
                ]
                empty = {each.kind: each.stored_bytes() for each in entered}
                await race(self.laps, entered, turns, partial(self.floor.sample, on))
                await self._note(entered, turns)
            for each in entered:
                grown = each.stored_bytes() - empty[each.kind]
                self.stored_bytes_per_turn[each.kind] = grown / turns

    async def _note(self, contenders: Sequence[Contender], turns: int) -> None:
        for each in contenders:
            self.settings[each.kind] = each.settings
            self.peak_memory_bytes[each.kind] = each.peak_memory_bytes()
            if each.kind == "session" and each.address is not None:
                await self.floor.count_steps(each.address, turns)


def print_latency(taken: Latency) -> None:
    laps = taken.laps
    rounds = next(iter(laps.of.values()))
    turns = len(rounds[0])
    print(f"\none conversation, {turns} turns, {len(rounds)} rounds in alternation; ms a turn")
    print(f"{'':10}{'median':>9}{'p95':>9}{'turn 10':>9}{f'turn {turns}':>9}", end="")
    print(f"{'CPU 10':>9}{f'CPU {turns}':>9}   KiB: written, kept a turn   MiB at most")
    for kind in laps.of:
        every = [lap.ms for lap in laps.window(kind, slice(None))]
        memory = taken.peak_memory_bytes[kind].items()
        print(
            f"  {kind:8}{statistics.median(every):9.1f}{statistics.quantiles(every, n=20)[-1]:9.1f}"
            f"{laps.ms(kind, EARLY):9.1f}{laps.ms(kind, LATE):9.1f}"
            f"{laps.cpu_ms(kind, EARLY):9.1f}{laps.cpu_ms(kind, LATE):9.1f}"
            f"{laps.written_bytes(kind) / 1024:12.1f}"
            f"{taken.stored_bytes_per_turn[kind] / 1024:14.1f}"
            f"   {', '.join(f'{role} {size / (1 << 20):.0f}' for role, size in memory)}"
        )
    for kind in laps.of:
        if kind != "session":
            print(
                f"  session / {kind:8} {laps.ratio('session', kind, EARLY):.2f} at turn 10,"
                f" {laps.ratio('session', kind, LATE):.2f} at turn {turns}"
                f"   CPU {_cpu_ratio(laps, kind, EARLY):.2f}, {_cpu_ratio(laps, kind, LATE):.2f}"
            )
    _print_floor(taken, turns)


def _cpu_ratio(laps: Laps, kind: str, when: slice) -> float:
    return laps.cpu_ms("session", when) / laps.cpu_ms(kind, when)


def _print_floor(taken: Latency, turns: int) -> None:
    laps, floor = taken.laps, taken.floor
    early = laps.difference_ms("session", "plain", EARLY)
    late = laps.difference_ms("session", "plain", LATE)
    of_a_turn = floor.of_a_turn_ms()
    print(
        f"  engine alone: {statistics.median(floor.execute_ms):.2f} ms an execute-only Step,"
        f" {statistics.median(floor.wait_ms):.2f} a Step that waits first;"
        f" a turn is {floor.execute_steps:.1f} and {floor.wait_steps:.1f} of them"
    )
    cpu_early, cpu_late = (
        laps.cpu_ms("session", when) - laps.cpu_ms("plain", when) for when in (EARLY, LATE)
    )
    print(
        f"  session - plain: {early:.1f} ms at turn 10, {late:.1f} at turn {turns},"
        f" growth {late / early:.2f}   CPU {cpu_early:.1f}, {cpu_late:.1f}:"
        f" {cpu_late / cpu_early:.2f}"
    )
    print(
        f"  (session - plain) / the Step floors of a turn ({of_a_turn:.1f} ms):"
        f" {early / of_a_turn:.2f} at turn 10, {late / of_a_turn:.2f} at turn {turns}"
    )
