"""How long a turn stands still when its Worker is killed while another one serves, early and late in a session."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import Factory, define

from benchmarks.takeover_worker import (
    DIRECTORY,
    MODEL,
    TOOL,
    Points,
    Started,
    build_held_flow,
)
from benchmarks.workload import PROMPT
from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import AgentTestStack, ChildProgram, wait_until

_SESSION: Final = "session"
_PATIENCE: Final = timedelta(seconds=60)


@define
class Takeover:
    """Kills at some turns of one session, so many in a model call and as many in a tool."""

    turns: tuple[int, ...]
    kills: int
    seconds: dict[tuple[int, str], list[float]] = Factory(dict)
    """From SIGKILL to the next attempt's own beginning, by turn and by what was killed."""

    async def run(self, scratch: Path) -> None:
        directory = Path(tempfile.mkdtemp(dir=scratch))
        points = Points(directory)
        flow = build_held_flow(points)
        environment = {DIRECTORY: str(directory)}
        async with AgentTestStack(
            directory, [flow], "benchmarks.takeover_worker", worker_env=environment
        ) as stack:
            workers = Workers(stack)
            await workers.be_two()
            sessions = stack.sessions(flow)
            await sessions.start_session(_SESSION)
            taken = 0
            for turn in self.turns:
                for _ in range(turn - 1 - taken):
                    await sessions.run_turn(_SESSION, PROMPT)
                for what in (MODEL, TOOL):
                    self.seconds[turn, what] = [
                        await _kill_one(sessions, points, workers, what) for _ in range(self.kills)
                    ]
                taken = turn - 1 + 2 * self.kills


@define
class Workers:
    """Two of them, whoever is killed."""

    _stack: AgentTestStack
    _running: dict[int, ChildProgram] = Factory(dict)

    async def be_two(self) -> None:
        while len(self._running) < 2:
            worker = await self._stack.start_worker()
            self._running[worker.pid] = worker

    def kill(self, pid: int) -> None:
        self._running.pop(pid).kill()


async def _kill_one(
    sessions: AgentSessionClient, points: Points, workers: Workers, what: str
) -> float:
    """Take one turn, in which the Worker at work is killed; the seconds until another goes on."""
    before = len(points.started())
    points.hold(what)
    await sessions.send_user_message(_SESSION, PROMPT)
    held = await _next(points, before, what)
    killed_at = time.monotonic()
    workers.kill(held.pid)
    points.release(what)
    again = await _next(points, points.started().index(held) + 1, what)
    await sessions.wait_for_turn(_SESSION)
    await workers.be_two()
    return again.at_seconds - killed_at


async def _next(points: Points, after: int, what: str) -> Started:
    """The first of these that begins behind so many others."""
    return await wait_until(
        f"the next {what}",
        lambda: next((each for each in points.started()[after:] if each.what == what), None),
        _PATIENCE,
    )


def print_takeover(taken: Takeover) -> None:
    print("\nfrom SIGKILL of a Worker to the next attempt on the other one; seconds")
    by_turn: Mapping[tuple[int, str], list[float]] = taken.seconds
    for (turn, what), seconds in by_turn.items():
        where = "in a model call" if what == MODEL else "in a tool"
        print(
            f"  turn {turn:4}, {where:16}median {statistics.median(seconds):.2f}"
            f"   most {max(seconds):.2f}   of {len(seconds)}"
        )
