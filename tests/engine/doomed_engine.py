"""Dev engines, each a process of its own, that kill themselves at a commit which the test names.

The product knows nothing of this: the store's writing is wrapped in the engine's process alone. A
server that has imported the engine forks them, so that each is up within a few hundredths of a
second. No rule is asserted here.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from dex_agents_dex.devengine import DevEngine, EngineOptions
from dex_agents_dex.devengine.store import Store

Moment = Literal["before", "after"]
DEFAULT_OPTIONS = EngineOptions()

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["dex_agents_dex.devengine"])


@frozen
class Doom:
    """SIGKILL at the commit `number`, from 1: before its COMMIT, or after it and before anybody
    hears of it."""

    number: int
    moment: Moment


@frozen
class EngineProcess:
    port: int
    end: asyncio.Task[int]  # the exit code, a negative signal number for a killed process


@asynccontextmanager
async def engine_process(
    data_dir: Path,
    *,
    port: int = 0,
    doom: Doom | None = None,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> AsyncIterator[EngineProcess]:
    """An engine that is ready; it is killed at the end."""
    here, there = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_run, args=(data_dir, port, options, doom, there), daemon=True)
    process.start()
    there.close()

    end = asyncio.create_task(_end_of(process))
    try:
        yield EngineProcess(await asyncio.to_thread(here.recv), end)
    finally:
        here.close()
        process.kill()
        await end


async def _end_of(process: Any) -> int:
    """Its exit code. The loop's thread alone asks for it: two that ask at once may both be told
    255."""
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, is_over.set)
    await is_over.wait()
    loop.remove_reader(process.sentinel)
    process.join()
    return int(process.exitcode)


def _run(
    data_dir: Path, port: int, options: EngineOptions, doom: Doom | None, ready: Connection
) -> None:
    if doom is not None:
        _die_at(doom)
    asyncio.run(_serve(data_dir, port, options, ready))


async def _serve(data_dir: Path, port: int, options: EngineOptions, ready: Connection) -> None:
    async with DevEngine(data_dir, port=port, options=options) as engine:
        ready.send(int(engine.address.rpartition(":")[2]))
        await engine.failed()


def _die_at(doom: Doom) -> None:
    commit, seen = Store._commit, 0

    def counted(self: Store, writes: Sequence[Any]) -> None:
        nonlocal seen
        seen += bool(writes)
        is_due = bool(writes) and seen == doom.number
        if is_due and doom.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, writes)
        if is_due:
            os.kill(os.getpid(), signal.SIGKILL)

    Store._commit = counted  # type: ignore[method-assign]  # in this process alone
