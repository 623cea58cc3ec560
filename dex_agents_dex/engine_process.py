"""The dev engine of a data directory as a process of its own, shared by every program that uses the directory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Final

from .devengine.data_directory import LOG_FILE_NAME, DataDirectory
from .errors import EngineUnavailable

_STARTS_WITHIN: Final = timedelta(seconds=30)
_STOPS_WITHIN: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(milliseconds=20)
_LOOKS_FOR_USERS: Final = 3
_STARTED: Final[list[subprocess.Popen[bytes]]] = []
"""Held so that an engine which outlives its starter is not taken for a forgotten child."""


@asynccontextmanager
async def shared_engine(data_dir: Path, *, keep: bool) -> AsyncIterator[str]:
    """The address of the engine of ``data_dir``: the one that runs, or else one that is started.

    An engine that was started here ends when the last program that uses the directory has left,
    or goes on with ``keep``. It keeps its port, so that clients and Workers find it again.

    Raises:
        EngineUnavailable: none runs and none could be started; the message is the engine's own.
    """
    directory = DataDirectory(data_dir)
    try:
        use = await _patiently(directory.use)
        started, address = await _join_or_start(directory, keep=keep)
    except OSError as error:
        raise EngineUnavailable(
            f"cannot use the data directory {data_dir}: {error.strerror or error}"
        ) from error
    try:
        yield address
    finally:
        os.close(use)
        if started is not None and not keep:
            await asyncio.to_thread(_stop_if_unused, directory, started)


async def _patiently(use: Callable[[], int | None]) -> int:
    """An engine that has no users left lets none begin before it has ended."""
    while (descriptor := use()) is None:  # noqa: ASYNC110 - a lock of the kernel tells nobody
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
    return descriptor


async def _join_or_start(
    directory: DataDirectory, *, keep: bool
) -> tuple[subprocess.Popen[bytes] | None, str]:
    """The engine's address, and its process when it was started here."""
    address = directory.address_of_running_engine()
    if address is not None:
        return None, address
    try:
        return await _start(directory, directory.last_port(), keep=keep)
    except EngineUnavailable:
        if not directory.last_port():
            raise
        return await _start(directory, 0, keep=keep)  # somebody else has its port now


async def _start(
    directory: DataDirectory, port: int, *, keep: bool
) -> tuple[subprocess.Popen[bytes] | None, str]:
    log_path = directory.path / LOG_FILE_NAME
    with log_path.open("ab") as log:
        logged_before = log.tell()
        process = _spawn(directory, port, log, keep=keep)
    _STARTED.append(process)
    give_up_at = time.monotonic() + _STARTS_WITHIN.total_seconds()
    while time.monotonic() < give_up_at:
        has_ended = process.poll() is not None
        address = directory.address_of_running_engine()
        if address is not None:  # of several that were started at once, one has the directory
            return None if has_ended else process, address
        if has_ended:
            raise EngineUnavailable(
                f"the dev engine did not start: {_said(log_path, logged_before)}"
            )
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
    _stop(process)
    raise EngineUnavailable(
        f"the dev engine of {directory.path} was not ready in {_STARTS_WITHIN.seconds} s;"
        f" see {log_path}"
    )


def _spawn(
    directory: DataDirectory, port: int, log: IO[bytes], *, keep: bool
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "dex_agents_dex.devengine"),
            *("--port", str(port), "--data-dir", str(directory.path)),
            *(() if keep else ("--until-unused",)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
    )


def _said(log_path: Path, start: int) -> str:
    text = log_path.read_bytes()[start:].decode(errors="replace").strip()
    return text.splitlines()[-1] if text else f"it said nothing; see {log_path}"


def _stop_if_unused(directory: DataDirectory, engine: subprocess.Popen[bytes]) -> None:
    # The engine asks now and then, too, and holds the lock for an instant.
    for _ in range(_LOOKS_FOR_USERS):
        closed = directory.close_to_users()
        if closed is not None:
            _stop(engine)
            os.close(closed)
            return
        time.sleep(_LOOK_EVERY.total_seconds())


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPS_WITHIN.total_seconds())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
