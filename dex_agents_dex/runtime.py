"""Everything that a program needs to serve and use sessions, in one ``async with``."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import dex
import grpc

from .client import AgentSessionClient
from .engine_process import shared_engine
from .errors import EngineUnavailable, is_unreachable
from .flow import AgentSessionFlow, agent_registry

SERVER_ADDRESS_VARIABLE: Final = "DEX_SERVER_ADDRESS"
DEFAULT_DATA_DIR: Final = Path(".dex-agents")
DEFAULT_WORKER_SLOTS: Final = 16
DEFAULT_DRAIN_TIMEOUT: Final = timedelta(seconds=30)

_ANSWERS_WITHIN: Final = timedelta(seconds=8)
_REGISTERS_WITHIN: Final = timedelta(seconds=30)
_BLOB_CACHE_BYTES: Final = 64 * 1024 * 1024


class AgentRuntime:
    """A Worker that serves ``flows`` and a client for their sessions.

    Without a server address, given here or in DEX_SERVER_ADDRESS, it uses the dev engine of
    ``data_dir``, which it starts if none runs. That engine ends with the last program that uses it,
    or goes on with ``keep_engine=True``. With ``serve=False`` there is no Worker, only the client.
    On leaving, calls that run have ``drain_timeout`` to end; what is cut off then goes on elsewhere,
    as its effect says.

    Raises:
        ValueError: no Flow, two of one type, fewer than two Worker slots, or none of them
            reserved for RPCs: a tool Step that asks its own session something would wait for ever.
        EngineUnavailable: on entering, when no server answers and none can be started.
    """

    def __init__(
        self,
        *flows: AgentSessionFlow,
        server_address: str | None = None,
        data_dir: str | Path = DEFAULT_DATA_DIR,
        worker_slots: int = DEFAULT_WORKER_SLOTS,
        reserved_rpc_slots: int = 1,
        serve: bool = True,
        keep_engine: bool = False,
        drain_timeout: timedelta = DEFAULT_DRAIN_TIMEOUT,
    ) -> None:
        if not flows:
            raise ValueError("AgentRuntime needs at least one AgentSessionFlow to serve")
        if worker_slots < 2 or not 1 <= reserved_rpc_slots < worker_slots:
            raise ValueError(
                f"worker_slots={worker_slots} with reserved_rpc_slots={reserved_rpc_slots}:"
                " a Worker needs at least two slots, one of them for RPCs and one for Steps"
            )
        self._flows = {flow.get_flow_type(): flow for flow in flows}
        if len(self._flows) < len(flows):
            raise ValueError("two of the flows have the same flow type; each agent needs its own")
        self._given_address = server_address or os.environ.get(SERVER_ADDRESS_VARIABLE)
        self._data_dir = Path(data_dir)
        self._pull = dex.PullWorkerOptions(
            max_concurrent_tasks=worker_slots,
            reserved_rpc_tasks=reserved_rpc_slots,
            stop_drain_timeout=drain_timeout,
        )
        self._serve = serve
        self._keep_engine = keep_engine
        self._running = AsyncExitStack()
        self._client: dex.AsyncClient | None = None
        self._address = ""

    @property
    def server_address(self) -> str:
        """The Dex server in use, ``host:port``."""
        return self._address

    def sessions(self, flow: AgentSessionFlow | str) -> AgentSessionClient:
        """The client for the sessions of one of the flows, named by itself or by its type.

        Raises:
            ValueError: the runtime has no such flow.
            RuntimeError: the runtime was not entered.
        """
        flow_type = flow if isinstance(flow, str) else flow.get_flow_type()
        known = self._flows.get(flow_type)
        if known is None:
            raise ValueError(
                f"unknown flow type {flow_type!r}; this runtime has {', '.join(self._flows)}"
            )
        if self._client is None:
            raise RuntimeError("enter the runtime first: async with AgentRuntime(...) as runtime")
        return AgentSessionClient(self._client, known)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._given_address:
                self._address = self._given_address
            else:
                engine = shared_engine(self._data_dir, keep=self._keep_engine)
                self._address = await stack.enter_async_context(engine)
            registry = agent_registry(*self._flows.values())
            cache_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="dex-blobs-"))
            cache = dex.open_blob_cache(dex.BlobCacheConfig(cache_dir, _BLOB_CACHE_BYTES))
            stack.callback(cache.close)
            options = dex.ClientOptions(
                server_address=self._address, worker_target=dex.WorkerTarget(pull=True)
            )
            client = await stack.enter_async_context(dex.AsyncClient(registry, cache, options))
            await self._require_server(client)
            for flow in self._flows.values():
                flow.bind(client)
            if self._serve:
                await self._start_worker(registry, cache, stack)
            self._client = client
            self._running = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = None
        await self._running.aclose()

    async def _require_server(self, client: dex.AsyncClient) -> None:
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN.total_seconds()):
                await client.health_check()
        except (dex.DexServiceError, TimeoutError) as error:
            if isinstance(error, dex.DexServiceError) and not is_unreachable(error):
                return  # it answers; whether it will do is for the Worker and the calls to find out
            raise EngineUnavailable(
                f"no Dex server answers at {self._address}: {_in_one_line(error)}"
            ) from error

    async def _start_worker(
        self, registry: dex.Registry, cache: dex.BlobCache, stack: AsyncExitStack
    ) -> None:
        worker = dex.AsyncWorker(
            registry,
            cache,
            dex.WorkerOptions(server_address=self._address, pull=self._pull),
        )
        serving = asyncio.create_task(worker.start())

        async def stop() -> None:
            await worker.stop()
            await asyncio.gather(serving, return_exceptions=True)

        stack.push_async_callback(stop)
        try:
            await worker.wait_pull_registered(_REGISTERS_WITHIN.total_seconds())
        except (RuntimeError, TimeoutError) as error:
            raise EngineUnavailable(
                f"no Dex server takes this Worker at {self._address}: {_in_one_line(error)}"
            ) from error


def _in_one_line(error: BaseException) -> str:
    """What a person needs of an error of the SDK, which quotes gRPC's own report over many lines."""
    cause = error.__cause__
    said = cause.details() if isinstance(cause, grpc.aio.AioRpcError) else str(error)
    return " ".join((said or "").split()) or type(error).__name__
