"""Waiting for a condition, with a deadline and an error that tells what was awaited. No fixed pause lives here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from inspect import isawaitable
from typing import Final, TypeVar, overload

from dex_agents_model.requests import AgentSnapshot

from ..client import AgentSessionClient
from ..errors import EngineUnavailable, SessionBusy, WorkerFailed

S = TypeVar("S")
T = TypeVar("T")

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)

_FIRST_PAUSE: Final = timedelta(milliseconds=5)
_LONGEST_PAUSE: Final = timedelta(milliseconds=100)
_SHOWN_CHARACTERS: Final = 2000


@overload
async def wait_until(
    description: str, probe: Callable[[], Awaitable[T | None]], timeout: timedelta = ...
) -> T: ...
@overload
async def wait_until(
    description: str, probe: Callable[[], T | None], timeout: timedelta = ...
) -> T: ...
async def wait_until(
    description: str, probe: Callable[[], object], timeout: timedelta = DEFAULT_TIMEOUT
) -> object:
    """Ask ``probe`` until it gives something true, and return that.

    Raises:
        TimeoutError: it did not in time; the message tells what it gave last.
        Exception: whatever ``probe`` raises.
    """

    async def look() -> object:
        seen = probe()
        return await seen if isawaitable(seen) else seen

    return await _poll(description, look, lambda seen: seen, timeout)


async def wait_for_agent_snapshot(
    sessions: AgentSessionClient,
    session_id: str,
    probe: Callable[[AgentSnapshot], T | None],
    *,
    description: str,
    timeout: timedelta = DEFAULT_TIMEOUT,
) -> T:
    """Read the session's snapshot until ``probe`` finds something true in one, and return that.

    While no server or no Worker answers, as after a kill, it goes on asking.

    Raises:
        TimeoutError: it did not in time; the message tells the last snapshot, or the last error.
        SessionNotFound: there is no session of this ID.
    """

    async def look() -> AgentSnapshot | Exception:
        try:
            return await sessions.get_agent_snapshot(session_id)
        except (EngineUnavailable, SessionBusy, WorkerFailed) as error:
            return error

    def accept(seen: AgentSnapshot | Exception) -> T | None:
        return None if isinstance(seen, Exception) else probe(seen)

    return await _poll(f"{description} in session {session_id!r}", look, accept, timeout)


async def _poll(
    description: str,
    look: Callable[[], Awaitable[S]],
    accept: Callable[[S], T | None],
    timeout: timedelta,
) -> T:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + timeout.total_seconds()
    pause = _FIRST_PAUSE
    while True:
        seen = await look()
        found = accept(seen)
        if found:
            return found
        if loop.time() >= give_up_at:
            raise TimeoutError(
                f"waited {timeout.total_seconds():g} s for {description};"
                f" seen last: {repr(seen)[:_SHOWN_CHARACTERS]}"
            )
        await asyncio.sleep(pause.total_seconds())
        pause = min(pause * 2, _LONGEST_PAUSE)
