"""Everything that a program needs to serve and use sessions, in one ``async with``."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import dex

from .client import AgentSessionClient
from .dex_server import SERVER_ADDRESS_VARIABLE, DexServer
from .engine_process import shared_engine
from .flow import AgentSessionFlow, agent_registry
from .serving import RuntimeHealth, health_of, require_server, serving

DEFAULT_DATA_DIR: Final = Path(".dex-agents")
DEFAULT_WORKER_SLOTS: Final = 16
DEFAULT_DRAIN_TIMEOUT: Final = timedelta(seconds=30)

_ANSWERS_WITHIN: Final = timedelta(seconds=8)
_REGISTERS_WITHIN: Final = timedelta(seconds=30)
_IDLE_STREAMS: Final = 4
"""For each queue: tools of one turn run at once, and opening a stream costs more than a task."""


class AgentRuntime:
    """A Worker that serves ``flows`` and a client for their sessions.

    Without a server address, given here or in DEX_SERVER_ADDRESS, it uses the dev engine of
    ``data_dir``, which it starts if none runs. That engine ends with the last program that uses it,
    or goes on with ``keep_engine=True``. A server that asks for a bearer token gets the one in
    ``token_file``, or in the file that DEX_SERVER_TOKEN_FILE names; it is read again when it changes.
    With ``serve=False`` there is no Worker, only the client. On leaving, calls that run have
    ``drain_timeout`` to end; what is cut off then goes on elsewhere, as its effect says.

    Raises:
        ValueError: no Flow, two of one type, fewer than two Worker slots, or none of them
            reserved for RPCs: a tool Step that asks its own session something would wait for ever.
        EngineUnavailable: on entering, when no server answers and none can be started.
        AccessDenied: on entering, when the token file cannot be used, or the server wants another token.
    """

    def __init__(
        self,
        *flows: AgentSessionFlow,
        server_address: str | None = None,
        token_file: str | Path | None = None,
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
        self._token_file = token_file
        self._data_dir = Path(data_dir)
        self._pull = dex.PullWorkerOptions(
            max_concurrent_tasks=worker_slots,
            reserved_rpc_tasks=reserved_rpc_slots,
            stop_drain_timeout=drain_timeout,
            idle_streams_per_queue=min(worker_slots, _IDLE_STREAMS),
        )
        self._serve = serve
        self._keep_engine = keep_engine
        self._running = AsyncExitStack()
        self._client: dex.AsyncClient | None = None
        self._worker: dex.AsyncWorker | None = None
        self._address = ""

    @property
    def server_address(self) -> str:
        """The Dex server in use, ``host:port``; empty before the runtime is entered."""
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
        return AgentSessionClient(self._entered, known)

    async def health(self, *, within: timedelta = _ANSWERS_WITHIN) -> RuntimeHealth:
        """Whether the server answers and the Worker asks it for work: what a readiness probe asks.

        It answers as soon as all is well, and ``within`` that time at the latest.

        Raises:
            RuntimeError: the runtime was not entered.
        """
        return await health_of(self._entered, self._worker, within)

    @property
    def _entered(self) -> dex.AsyncClient:
        if self._client is None:
            raise RuntimeError("enter the runtime first: async with AgentRuntime(...) as runtime")
        return self._client

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._given_address:
                self._address = self._given_address
            else:
                engine = shared_engine(self._data_dir, keep=self._keep_engine)
                self._address = await stack.enter_async_context(engine)
            registry = agent_registry(*self._flows.values())
            server = DexServer.at(self._address, self._token_file)
            client, cache = await stack.enter_async_context(server.client(registry))
            await require_server(client, _ANSWERS_WITHIN)
            if self._serve:
                for flow in self._flows.values():
                    flow.bind(client)
                worker = dex.AsyncWorker(registry, cache, server.worker_options(self._pull))
                await stack.enter_async_context(serving(worker, _REGISTERS_WITHIN))
                self._worker = worker
            self._client = client
            self._running = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client = self._worker = None
        await self._running.aclose()
