"""Sessions read and answered without their agents: by the Workers that serve them, or else by this program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import dex
from attrs import frozen

from ..client import AgentSessionClient
from ..dex_server import DexServer
from ..errors import WorkerFailed
from ..flow import AgentSessionFlow, agent_registry
from .rpc_worker import flow_without_agent, registry_without_steps, rpc_worker

_A_WORKER_ANSWERS_WITHIN: Final = timedelta(milliseconds=500)


@frozen
class Desk:
    """Sessions of some Flow types on one server."""

    server: DexServer
    client: dex.AsyncClient
    flows: Mapping[str, AgentSessionFlow]

    def sessions(self, flow_type: str) -> AgentSessionClient:
        return AgentSessionClient(self.client, self.flows[flow_type])


@asynccontextmanager
async def desk_at(server: DexServer, samples: Mapping[str, str]) -> AsyncIterator[Desk]:
    """Asks the sessions of some Flow types, and answers for those that no Worker answers for.

    ``samples`` has one session of each Flow type, to find out which.

    Raises:
        EngineUnavailable: the server takes no Worker.
        AgentSessionError: a session could not be asked.
    """
    flows = {flow_type: flow_without_agent(flow_type) for flow_type in samples}
    async with server.client(agent_registry(*flows.values())) as (client, _):
        desk = Desk(server, client, flows)
        unserved = [
            flow_type
            for flow_type, session_id in samples.items()
            if not await _is_served(desk.sessions(flow_type), session_id)
        ]
        if unserved:
            async with answering_at(server, unserved):
                yield desk
        else:
            yield desk


@asynccontextmanager
async def answering_at(server: DexServer, flow_types: Sequence[str]) -> AsyncIterator[None]:
    """Answers the RPCs of all sessions of ``flow_types``, beside whatever Workers there are.

    Raises:
        EngineUnavailable: the server takes no Worker.
    """
    registry = registry_without_steps(map(flow_without_agent, flow_types))
    async with (
        server.client(registry) as (_, cache),
        rpc_worker(registry, cache, server),
    ):
        yield


async def _is_served(sessions: AgentSessionClient, session_id: str) -> bool:
    try:
        async with asyncio.timeout(_A_WORKER_ANSWERS_WITHIN.total_seconds()):
            await sessions.list_queued_messages(session_id)
    except (TimeoutError, WorkerFailed):
        return False
    return True


@asynccontextmanager
async def client_at(server: DexServer) -> AsyncIterator[dex.AsyncClient]:
    """A client that knows no Flow: for what the server tells by itself."""
    async with server.client(agent_registry()) as (client, _):
        yield client
