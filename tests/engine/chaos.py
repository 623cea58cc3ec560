"""Kills without end: `python -m tests.engine.chaos --kills 500 --seed 1`.

Sessions of `crash_session` run while their engine and their Workers, each a process of its own, are
killed at random. At the end every session must have ended right. Exit code 1 when one did not; the
same seed makes the same plan, though not the same timing.
"""

import asyncio
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from attrs import Factory, define, field
from dex import DexServiceError

from tests.engine.crash_session import CrashSession, Effects, drive, is_right
from tests.engine.rig import Rig, free_port, rig_at

SESSIONS = 60  # of a round
SESSIONS_AT_ONCE = 6
WORKERS = 3
KILLS_PER_ROUND = 20
ROUND_SECONDS = 120.0
LOOK_SECONDS = 0.1
ENGINE_SHARE = 0.3  # of the kills

Process = asyncio.subprocess.Process


@define
class FileEffects(Effects):
    """Effects that survive their Worker: a line in a shared file, written before the tool ends."""

    path: Path = field(kw_only=True)

    def note(self, flow_id: str, tool: str) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{flow_id} {tool}\n".encode())
        os.close(descriptor)

    def of(self, flow_id: str) -> Effects:
        lines = (line.split() for line in self.path.read_text().splitlines())
        return Effects(Counter(tool for each, tool in lines if each == flow_id))


@define
class Stage:
    """One engine, its Workers, and the means to kill and replace them."""

    directory: Path
    port: int
    chance: random.Random
    engine: Process | None = None
    workers: list[Process] = Factory(list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def effects_path(self) -> Path:
        return self.directory / "effects"

    async def raise_curtain(self) -> None:
        await self.start_engine()
        await self.fill_up()

    async def start_engine(self) -> None:
        self.engine = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dex_agents_dex.devengine", "--port", str(self.port)),
            *("--data-dir", str(self.directory / "data")),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.engine.stdout is not None
        assert (await self.engine.stdout.readline()).startswith(b"dev engine ready")

    async def fill_up(self) -> None:
        """Replace Workers that were killed, or found no engine when they started."""
        self.workers = [worker for worker in self.workers if worker.returncode is None]
        while len(self.workers) < WORKERS:
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.engine.chaos"),
                *("--worker", self.address, "--effects", str(self.effects_path)),
                stderr=asyncio.subprocess.DEVNULL,
            )
            self.workers.append(worker)

    async def kill_one(self) -> None:
        assert self.engine is not None
        if self.chance.random() < ENGINE_SHARE:
            await _kill(self.engine)
            await self.start_engine()
        else:
            await _kill(self.chance.choice(self.workers))

    async def drop_curtain(self) -> None:
        for each in (*self.workers, *((self.engine,) if self.engine else ())):
            await _kill(each)


@click.command()
@click.option("--kills", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--worker", "worker_of", help="Be a Worker of the engine at this address.")
@click.option("--effects", type=click.Path(path_type=Path), help="Where that Worker notes effects.")
def main(kills: int, seed: int, worker_of: str | None, effects: Path | None) -> None:
    if worker_of is not None and effects is not None:
        asyncio.run(_serve(worker_of, effects))
        return
    left, round_number, wrong = kills, 0, 0
    while left > 0:
        round_number += 1
        count = min(left, KILLS_PER_ROUND)
        with tempfile.TemporaryDirectory() as directory:
            plan = random.Random(f"{seed} {round_number}")
            stage = Stage(Path(directory), free_port(), plan)
            faults = asyncio.run(_round(stage, count))
        left -= count
        wrong += len(faults)
        click.echo(f"round {round_number}: {count} kills, {len(faults)} sessions wrong")
        for fault in faults:
            click.echo(f"  {fault}")
    sys.exit(1 if wrong else 0)


async def _round(stage: Stage, kills: int) -> list[str]:
    """Play one round; what went wrong, a line for each session."""
    stage.effects_path.touch()
    effects = FileEffects(path=stage.effects_path)
    flow = CrashSession(effects)
    try:
        await stage.raise_curtain()
        async with rig_at(stage.address, stage.directory, flow) as rig:
            turns = asyncio.Semaphore(SESSIONS_AT_ONCE)
            sessions = {
                f"s{number}": asyncio.create_task(_play(rig, flow, f"s{number}", turns))
                for number in range(SESSIONS)
            }
            await _kill_meanwhile(stage, kills, set(sessions.values()))
            return [
                f"{flow_id}: {_outcome(task)}"
                for flow_id, task in sessions.items()
                if not _is_right(task, effects.of(flow_id))
            ]
    finally:
        await stage.drop_curtain()


async def _kill_meanwhile(
    stage: Stage, kills: int, sessions: set[asyncio.Task[list[tuple[str, Any]]]]
) -> None:
    """Kill while sessions run and kills are left; then wait for the sessions."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ROUND_SECONDS
    pending = sessions
    while (pending or kills > 0) and loop.time() < end:
        if pending:
            _, pending = await asyncio.wait(pending, timeout=LOOK_SECONDS)
        if kills > 0 and stage.chance.random() < 0.3:
            await stage.kill_one()
            kills -= 1
        await stage.fill_up()
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending)


async def _play(
    rig: Rig, flow: CrashSession, flow_id: str, turns: asyncio.Semaphore
) -> list[tuple[str, Any]]:
    """As a patient client does, whatever happens to the connection."""
    async with turns:
        while True:
            with suppress(DexServiceError):
                return await drive(rig, flow, flow_id)


def _is_right(task: asyncio.Task[list[tuple[str, Any]]], effects: Effects) -> bool:
    return not task.cancelled() and task.exception() is None and is_right(task.result(), effects)


def _outcome(task: asyncio.Task[list[tuple[str, Any]]]) -> str:
    if task.cancelled():
        return f"did not end within {ROUND_SECONDS:g} s"
    return repr(task.exception() or task.result())


async def _serve(address: str, effects_path: Path) -> None:
    flow = CrashSession(FileEffects(path=effects_path))
    with tempfile.TemporaryDirectory() as cache:
        async with rig_at(address, Path(cache), flow) as rig, rig.worker():
            await asyncio.Event().wait()


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


if __name__ == "__main__":
    main()
