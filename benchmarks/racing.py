"""Contenders that take turns in alternation, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import Factory, define, frozen

from benchmarks.contender import READY
from benchmarks.machine import cpu_seconds, peak_memory_bytes, size_bytes, written_bytes

NEEDS_ENGINE: Final = ("session", "asked", "window", "bare")
_LINE_BYTES: Final = 1 << 20


@define
class Contender:
    """One way to take turns of W: a program of its own, and perhaps its engine."""

    kind: str
    settings: str
    processes: Mapping[str, int]
    """Process IDs by role."""
    address: str | None
    """Of its engine."""
    _program: Process
    _data_dir: Path

    async def turn(self, conversation: int = 0) -> float:
        """The milliseconds of one turn, taken inside the program."""
        return await self._ask(f"turn {conversation}")

    async def all(self, turns: int) -> float:
        """The seconds of so many turns of every conversation at once."""
        return await self._ask(f"all {turns}")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.processes.values())

    def written_bytes(self) -> int:
        return written_bytes(self.processes.values())

    def peak_memory_bytes(self) -> dict[str, int]:
        return {role: peak_memory_bytes(pid) for role, pid in self.processes.items()}

    def stored_bytes(self) -> int:
        """Exact once it has ended, for a journal is emptied then."""
        return size_bytes(self._data_dir)

    async def _ask(self, line: str) -> float:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{line}\n".encode())
        answer = await self._program.stdout.readline()
        if not answer:
            raise RuntimeError(f"the contender {self.kind} ended; see its last words above")
        return float(answer)


@asynccontextmanager
async def contender(
    kind: str, scratch: Path, conversations: int = 1, address: str | None = None
) -> AsyncIterator[Contender]:
    """Start a contender in a directory of its own below ``scratch``; it ends with the block.

    With ``address`` it uses an engine that runs already, and goes on with the sessions there.
    """
    data_dir = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=scratch))
    async with AsyncExitStack() as stack:
        processes: dict[str, int] = {}
        if address is None and kind in NEEDS_ENGINE:
            engine, address = await stack.enter_async_context(running_engine(data_dir))
            processes["engine"] = engine.pid
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.contender", kind),
            *(address or str(data_dir), str(conversations)),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LINE_BYTES,
        )
        stack.push_async_callback(_end, program)
        assert program.stdout is not None
        ready = (await program.stdout.readline()).decode().strip()
        if not ready.startswith(READY):
            raise RuntimeError(f"the contender {kind} did not start; see its last words above")
        processes["program"] = program.pid
        settings = ready.removeprefix(READY).strip()
        yield Contender(kind, settings, processes, address, program, data_dir)


@asynccontextmanager
async def running_engine(data_dir: Path) -> AsyncIterator[tuple[Process, str]]:
    """A dev engine as its users have it, strict durability, and its address."""
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents_dex.devengine", "--port", "0"),
        *("--data-dir", str(data_dir), "--until-stdin-closes"),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    try:
        yield engine, str(json.loads(await engine.stdout.readline())["address"])
    finally:
        engine.stdin.close()
        await engine.wait()


async def _end(program: Process) -> None:
    assert program.stdin is not None
    program.stdin.close()
    await program.wait()


@frozen
class Lap:
    """One turn of one contender."""

    ms: float
    cpu_ms: float
    written_bytes: int


@define
class Laps:
    """What each contender took for each turn, over all rounds."""

    of: dict[str, list[list[Lap]]] = Factory(dict)
    """By kind; a list a round, in it a lap a turn."""

    def window(self, kind: str, turns: slice) -> list[Lap]:
        """The laps of some turns, over all rounds."""
        return [lap for laps in self.of[kind] for lap in laps[turns]]

    def ms(self, kind: str, turns: slice = slice(None)) -> float:
        """The median."""
        return statistics.median(lap.ms for lap in self.window(kind, turns))

    def cpu_ms(self, kind: str, turns: slice = slice(None)) -> float:
        """The mean, for the kernel counts in ticks."""
        return statistics.mean(lap.cpu_ms for lap in self.window(kind, turns))

    def written_bytes(self, kind: str, turns: slice = slice(None)) -> float:
        """The mean, for journals are emptied now and then."""
        return statistics.mean(lap.written_bytes for lap in self.window(kind, turns))

    def ratio(self, kind: str, to: str, turns: slice = slice(None)) -> float:
        """The median ratio of two laps that were taken one right after the other."""
        pairs = zip(self.window(kind, turns), self.window(to, turns), strict=True)
        return statistics.median(one.ms / other.ms for one, other in pairs)

    def difference_ms(self, kind: str, to: str, turns: slice = slice(None)) -> float:
        """The median difference of two laps that were taken one right after the other."""
        pairs = zip(self.window(kind, turns), self.window(to, turns), strict=True)
        return statistics.median(one.ms - other.ms for one, other in pairs)


async def race(
    laps: Laps,
    contenders: Sequence[Contender],
    turns: int,
    between: Callable[[int], Awaitable[None]] | None = None,
) -> None:
    """One more round: so many turns of each, in alternation, each time another one first.

    ``between`` is awaited after each turn of all, with its number.
    """
    taken: dict[str, list[Lap]] = {each.kind: [] for each in contenders}
    for turn in range(turns):
        first = turn % len(contenders)
        for each in (*contenders[first:], *contenders[:first]):
            cpu, written = each.cpu_seconds(), each.written_bytes()
            ms = await each.turn()
            taken[each.kind].append(
                Lap(ms, 1000 * (each.cpu_seconds() - cpu), each.written_bytes() - written)
            )
        if between is not None:
            await between(turn)
    for kind, one_round in taken.items():
        laps.of.setdefault(kind, []).append(one_round)
