"""The dev engine as a process of its own, which ends with the program that started it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from .errors import EngineUnavailable

_STARTS_WITHIN: Final = timedelta(seconds=30)
_STOPS_WITHIN: Final = timedelta(seconds=10)


@asynccontextmanager
async def engine_process(data_dir: Path) -> AsyncIterator[str]:
    """Runs a dev engine on ``data_dir`` and yields its address, ``host:port`` on loopback.

    Raises:
        EngineUnavailable: it did not start; the message is its own.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "dex_agents_dex.devengine", "--port", "0", "--until-stdin-closes"),
        *("--data-dir", str(data_dir)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield await _address(process)
    finally:
        await _stop(process)


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_STARTS_WITHIN.total_seconds()):
            line = await process.stdout.readline()
            if line:
                return str(json.loads(line)["address"])
            said = (await process.stderr.read()).decode(errors="replace").strip()
    except TimeoutError:
        said = f"it did not say that it is ready within {_STARTS_WITHIN}"
    raise EngineUnavailable(f"the dev engine did not start: {said}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOPS_WITHIN.total_seconds()):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
