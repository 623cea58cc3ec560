"""A Worker while a program runs it: it starts, asks its server for work, and ends; and whether both are well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import dex
import grpc
from attrs import frozen

from .errors import SHUT, AccessDenied, EngineUnavailable, denied, is_unreachable

_LOOK_EVERY: Final = timedelta(milliseconds=20)


@frozen(kw_only=True)
class RuntimeHealth:
    """How a runtime is. ``trouble`` is one line on what is wrong; None while it is ready.

    ``worker_polls`` says whether the Worker is in line for the work of every Flow that it serves;
    None where the runtime has no Worker.
    """

    server_answers: bool
    worker_polls: bool | None
    trouble: str | None

    @property
    def is_ready(self) -> bool:
        """Whether sessions can be asked, and go on here if this runtime is to serve them."""
        return self.trouble is None


async def health_of(
    client: dex.AsyncClient, worker: dex.AsyncWorker | None, within: timedelta
) -> RuntimeHealth:
    """How ``client`` and ``worker`` are, as soon as all is well or else when the time is over."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + within.total_seconds()
    try:
        await require_server(client, within)
    except (AccessDenied, EngineUnavailable) as error:
        polls = None if worker is None else False
        return RuntimeHealth(server_answers=False, worker_polls=polls, trouble=str(error))
    if worker is None:
        return RuntimeHealth(server_answers=True, worker_polls=None, trouble=None)
    while idle := _queues_without_a_stream(worker):
        if loop.time() >= give_up_at:
            address = client.options.server_address
            trouble = f"the Worker is not in line at {address} for: {', '.join(idle)}"
            return RuntimeHealth(server_answers=True, worker_polls=False, trouble=trouble)
        await asyncio.sleep(_LOOK_EVERY.total_seconds())
    return RuntimeHealth(server_answers=True, worker_polls=True, trouble=None)


async def require_server(client: dex.AsyncClient, within: timedelta) -> None:
    """Ask the client's server for a sign of life.

    Raises:
        EngineUnavailable: nothing answers ``within`` that time.
        AccessDenied: it lets nobody in with this token.
    """
    address = client.options.server_address
    try:
        async with asyncio.timeout(within.total_seconds()):
            await client.health_check()
    except TimeoutError as error:
        raise EngineUnavailable(
            f"no Dex server answers at {address}: nothing came in {within.total_seconds():g} s"
        ) from error
    except dex.DexServiceError as error:
        if is_unreachable(error):
            raise EngineUnavailable(
                f"no Dex server answers at {address}: {_in_one_line(error)}"
            ) from error
        if error.code in SHUT:
            raise denied(address, client.options.credential, _in_one_line(error)) from error
        # It answers; whether it will do is for the Worker and the calls to find out.


@asynccontextmanager
async def serving(worker: dex.AsyncWorker, within: timedelta) -> AsyncIterator[None]:
    """Run ``worker`` while this lasts; it is in line for work when this begins.

    Raises:
        EngineUnavailable: the server does not take it ``within`` that time.
    """
    running = asyncio.create_task(worker.start())
    try:
        try:
            await worker.wait_pull_registered(within.total_seconds())
        except (RuntimeError, TimeoutError) as error:
            address = worker.options.server_address
            raise EngineUnavailable(
                f"no Dex server takes this Worker at {address}: {_in_one_line(error)}"
            ) from error
        yield
    finally:
        await worker.stop()
        await asyncio.gather(running, return_exceptions=True)


def _queues_without_a_stream(worker: dex.AsyncWorker) -> list[str]:
    """The Flow types and Worker IDs for which no stream to the server stands at this moment."""
    queues = worker.pull_registration_state().queues
    return [queue.queue for queue in queues if not queue.has_registered_stream]


def _in_one_line(error: BaseException) -> str:
    """What a person needs of an error of the SDK, which quotes gRPC's own report over many lines."""
    cause = error.__cause__
    said = cause.details() if isinstance(cause, grpc.aio.AioRpcError) else str(error)
    return " ".join((said or "").split()) or type(error).__name__
