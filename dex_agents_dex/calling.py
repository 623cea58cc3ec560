"""How a call to a session is made from outside: tried again while it changed nothing, with clear errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import dex
import grpc

from dex_agents_model.ids import SessionId

from .entry_texts import ReadEntries, StoredTexts
from .errors import clear_errors, is_unreachable

R = TypeVar("R")

BRIEF: Final = timedelta(seconds=5)
PATIENT: Final = timedelta(seconds=60)
"""For what must get through although a Step holds the lock: a claim, a cancel."""

_FIRST_PAUSE: Final = timedelta(milliseconds=10)
_LONGEST_PAUSE: Final = timedelta(milliseconds=250)


async def retrying(
    client: dex.AsyncClient,
    session: SessionId,
    call: Callable[[], Awaitable[R]],
    *,
    within: timedelta = BRIEF,
) -> R:
    """Repeat ``call`` while a lock is held, no server answers, or a Worker is lost that was to answer.

    ``call`` must count once however often it is made: it carries an ID that stays the same.

    Raises:
        AgentSessionError: it did not get through in time, or was refused.
    """
    loop = asyncio.get_running_loop()
    pause = _FIRST_PAUSE
    give_up_at = loop.time() + within.total_seconds()
    was_cut_off = False
    with clear_errors(session, client.options, may_have_counted=lambda: was_cut_off):
        while True:
            try:
                return await call()
            except dex.DexServiceError as error:
                if not _is_passing(error) or loop.time() >= give_up_at:
                    raise
                was_cut_off = was_cut_off or is_unreachable(error)
            await asyncio.sleep(pause.total_seconds())
            pause = min(pause * 2, _LONGEST_PAUSE)


def _is_passing(error: dex.DexServiceError) -> bool:
    """Whether the same call may get through a moment later."""
    if isinstance(error, dex.WorkerInvocationError):
        return error.worker_code is grpc.StatusCode.UNAVAILABLE
    return isinstance(error, dex.RpcLockConflictError) or is_unreachable(error)


async def read_entries(
    client: dex.AsyncClient,
    rpc: Callable[[dex.Context, ReadEntries], dex.RPCResult[StoredTexts]],
    session: SessionId,
    entries: dex.AttributeMap[Any],
    request: ReadEntries,
    *,
    run_id: str = "",
) -> StoredTexts:
    """Entries of ``session``, by the ``rpc`` of its Flow that reads them; of one run, if it is named.

    Raises:
        AgentSessionError: it did not get through in time, or was refused.
    """
    options = dex.RPCInvokeOptions(
        load_attribute_map_instances=tuple(map(entries.load, request.keys))
    )
    return await retrying(
        client,
        session,
        lambda: client.invoke_rpc(rpc, session, request, run_id=run_id, options=options),
        within=PATIENT,
    )
