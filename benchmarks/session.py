"""Durable sessions: a Worker and a client in one process, on an engine that is a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TypeAlias

from benchmarks.conversation import Conversation, Opened
from benchmarks.workload import ANSWER, PROMPT, build_flow, build_flow_with_a_window
from dex_agents_dex import AgentRuntime, AgentSessionClient, AgentSessionFlow
from dex_agents_model import AgentEventType

PATIENCE = timedelta(seconds=120)
Begin: TypeAlias = Callable[[AgentSessionClient, str], Awaitable[Conversation]]


class WatchedConversation:
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


class AskedConversation:
    """A session whose client asks for the answer alone."""

    def __init__(self, sessions: AgentSessionClient, session_id: str) -> None:
        self._sessions = sessions
        self._session_id = session_id

    async def take_turn(self) -> None:
        outcome = await self._sessions.run_turn(self._session_id, PROMPT)
        if outcome.answer != ANSWER:
            raise RuntimeError(f"a turn ended otherwise: {outcome}")


@asynccontextmanager
async def _open(
    flow: AgentSessionFlow, place: str, count: int, begin: Begin
) -> AsyncIterator[Opened]:
    async with AgentRuntime(flow, server_address=place) as runtime:
        client = runtime.sessions(flow)
        begun = [begin(client, f"session-{number}") for number in range(count)]
        words = "Worker and client in one process, the engine in another"
        yield words, await asyncio.gather(*begun)


async def _watch(sessions: AgentSessionClient, session_id: str) -> Conversation:
    """Start a session, or go on with the one of this ID."""
    await sessions.start_session(session_id)
    snapshot = await sessions.get_agent_snapshot(session_id)
    return WatchedConversation(sessions, session_id, snapshot.event_token)


async def _ask(sessions: AgentSessionClient, session_id: str) -> Conversation:
    await sessions.start_session(session_id)
    return AskedConversation(sessions, session_id)


def open_conversations(place: str, count: int) -> AbstractAsyncContextManager[Opened]:
    """Sessions that send their whole history with each model call."""
    return _open(build_flow(), place, count, _watch)


def open_asked_conversations(place: str, count: int) -> AbstractAsyncContextManager[Opened]:
    """The same, of whose events nobody reads one."""
    return _open(build_flow(), place, count, _ask)


def open_conversations_with_a_window(place: str, count: int) -> AbstractAsyncContextManager[Opened]:
    """Sessions whose model's input stays the same."""
    return _open(build_flow_with_a_window(), place, count, _watch)
