"""Turns a second of many conversations at once."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from attrs import Factory, define

from benchmarks.racing import contender


@define
class Throughput:
    """So many conversations of each contender at once, some turns each, in alternating rounds."""

    conversations: int
    turns_each: int
    rates: dict[str, list[float]] = Factory(dict)
    """Turns a second, by kind, one a round."""
    peak_memory_bytes: dict[str, dict[str, int]] = Factory(dict)

    async def run(self, kinds: Sequence[str], scratch: Path, rounds: int) -> None:
        async with AsyncExitStack() as stack:
            entered = [
                await stack.enter_async_context(contender(kind, scratch, self.conversations))
                for kind in kinds
            ]
            for each in entered:
                await each.all(1)  # warms up
            for _ in range(rounds):
                for each in entered:
                    took = await each.all(self.turns_each)
                    rate = self.conversations * self.turns_each / took
                    self.rates.setdefault(each.kind, []).append(rate)
            for each in entered:
                self.peak_memory_bytes[each.kind] = each.peak_memory_bytes()

    def ratio(self, kind: str, to: str) -> float:
        """The median over rounds."""
        pairs = zip(self.rates[kind], self.rates[to], strict=True)
        return statistics.median(one / other for one, other in pairs)


def print_throughput(taken: Throughput) -> None:
    rounds = len(next(iter(taken.rates.values())))
    print(
        f"\n{taken.conversations} conversations at once, {rounds} rounds of {taken.turns_each}"
        " turns each in alternation; turns/s"
    )
    for kind, rates in taken.rates.items():
        compared = (
            "" if kind == "session" else f"   session / it {taken.ratio('session', kind):.2f}"
        )
        memory = taken.peak_memory_bytes[kind].items()
        print(
            f"  {kind:8}{statistics.median(rates):9.1f}   best {max(rates):.1f}"
            f"   MiB at most: {', '.join(f'{role} {size / (1 << 20):.0f}' for role, size in memory)}"
            f"{compared}"
        )
