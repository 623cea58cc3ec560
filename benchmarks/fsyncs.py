"""How often a contender makes the disk keep what it wrote, counted by strace where there is one."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Final

from benchmarks.racing import contender

_TURNS: Final = 10


async def fsyncs_per_turn(kind: str, scratch: Path) -> float | None:
    """Mean over some turns; None where there is no strace or it may not look."""
    if shutil.which("strace") is None:
        return None
    async with contender(kind, scratch) as on:
        await on.turn()
        with tempfile.NamedTemporaryFile(dir=scratch) as log:
            watched = [f"--attach={pid}" for pid in on.processes.values()]
            strace = await asyncio.create_subprocess_exec(
                *("strace", "--follow-forks", "--trace=fsync,fdatasync", "-o", log.name, *watched),
                stdout=DEVNULL,
                stderr=PIPE,
            )
            assert strace.stderr is not None
            for _ in watched:
                if b"attached" not in await strace.stderr.readline():
                    await strace.wait()
                    return None
            for _ in range(_TURNS):
                await on.turn()
            strace.terminate()
            await strace.wait()
            return log.read().count(b"sync(") / _TURNS
