"""Durable sessions: a Worker and a client in one process, on an engine that is a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from benchmarks.conversation import Opened
from benchmarks.workload import PROMPT, build_flow, build_flow_with_a_window
from dex_agents_dex import AgentRuntime, AgentSessionClient, AgentSessionFlow
from dex_agents_model import AgentEventType

PATIENCE = timedelta(seconds=120)


class SessionConversation:
    """A session, watched by a client: a turn has ended when the client has read that it has."""

    def __init__(self, sessions: AgentSessionClient, session_id: str, token: str) -> None:
        self._sessions = sessions
        self._session_id = session_id
        self._token = token

    async def take_turn(self) -> None:
        await self._sessions.send_user_message(self._session_id, PROMPT)
        while True:
            read = await self._sessions.read_agent_event(
                self._session_id, self._token, timeout=PATIENCE
            )
            if read is None:
                raise TimeoutError(f"no event of {self._session_id} within {PATIENCE}")
            self._token = read.resume_token
            match read.event.type:
                case AgentEventType.TURN_COMPLETED:
                    return
                case AgentEventType.TURN_FAILED:
                    raise RuntimeError(f"a turn failed: {read.event.payload}")
                case _:
                    pass


@asynccontextmanager
async def _open(flow: AgentSessionFlow, address: str, count: int) -> AsyncIterator[Opened]:
    async with AgentRuntime(flow, server_address=address) as runtime:
        client = runtime.sessions(flow)
        begun = [_begin(client, f"session-{number}") for number in range(count)]
        words = "Worker and client in one process, the engine in another"
        yield words, await asyncio.gather(*begun)


async def _begin(sessions: AgentSessionClient, session_id: str) -> SessionConversation:
    """Start a session, or go on with the one of this ID."""
    await sessions.start_session(session_id)
    snapshot = await sessions.get_agent_snapshot(session_id)
    return SessionConversation(sessions, session_id, snapshot.event_token)


def open_conversations(place: str, count: int) -> AbstractAsyncContextManager[Opened]:
    """Sessions that send their whole history with each model call."""
    return _open(build_flow(), place, count)


def open_conversations_with_a_window(place: str, count: int) -> AbstractAsyncContextManager[Opened]:
    """Sessions whose model's input stays the same."""
    return _open(build_flow_with_a_window(), place, count)
