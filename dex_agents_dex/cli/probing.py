"""Whether a server answers, at first and while a command goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty

from ..dex_server import DexServer, words_of
from ..errors import EngineUnavailable

T = TypeVar("T")

_ANSWERS_WITHIN: Final = timedelta(seconds=5)
_LOOK_EVERY: Final = timedelta(seconds=2)


async def ask_whether_it_answers(server: DexServer, *, within: timedelta | None = None) -> None:
    """Ask the server who it is.

    Raises:
        EngineUnavailable: nothing answers ``within`` (else 5 seconds), or no Dex server.
        AccessDenied: it lets nobody in with this token, or the token cannot be read.
    """
    async with server.flow_service() as service:
        try:
            await service.GetServerInfo(
                Empty(),
                metadata=await server.metadata(),
                timeout=(within or _ANSWERS_WITHIN).total_seconds(),
            )
        except grpc.aio.AioRpcError as error:
            raise server.trouble(error) or EngineUnavailable(
                f"what answers at {server.address} is not a Dex server: {words_of(error)}"
            ) from error


async def while_it_answers(server: DexServer, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the server stops answering.

    Raises:
        EngineUnavailable: it does not answer any more.
        AccessDenied: it lets nobody in with this token any more.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_watch(server))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await watching
        return await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _watch(server: DexServer) -> None:
    failures = 0
    while True:
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
        try:
            await ask_whether_it_answers(server, within=_LOOK_EVERY)
            failures = 0
        except EngineUnavailable:
            failures += 1
            if failures > 1:  # one may be a restart
                raise
