"""The way into sessions from outside: start one, speak to it, answer its questions, watch it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar
from uuid import uuid4

import dex
from attrs import frozen

from dex_agents_model.events import AgentEvent
from dex_agents_model.ids import InterruptId, SessionId
from dex_agents_model.records import AgentUserMessage
from dex_agents_model.requests import (
    MAX_PAGE_MESSAGES,
    AgentMessagesPage,
    AgentSnapshot,
    GetAgentSnapshot,
    ListAgentMessages,
    ResolveInterrupt,
    SendUserMessage,
)
from dex_agents_model.steps import StartAgentSession

from .errors import clear_errors, is_unreachable
from .flow import AgentSessionFlow

R = TypeVar("R")

_RETRIED_FOR: Final = timedelta(seconds=5)
_FIRST_PAUSE: Final = timedelta(milliseconds=10)
_LONGEST_PAUSE: Final = timedelta(milliseconds=250)


@frozen
class ReadEvent:
    """One event of a session's Stream, and the position to read on from."""

    event: AgentEvent
    resume_token: str


class AgentSessionClient:
    """Sessions of one Flow type.

    Every call may raise `EngineUnavailable`. A call that changes a session carries an ID which it
    keeps over its retries, so that it counts once.
    """

    def __init__(self, client: dex.AsyncClient, flow: AgentSessionFlow) -> None:
        self._client = client
        self._flow = flow

    async def start_session(self, session_id: str, initial_message: str | None = None) -> str:
        """Start a session, with a turn when there is a message; returns Dex's run ID.

        The same start again is one session.

        Raises:
            ValueError: the ID is no session ID, or the message is too long.
            SessionAlreadyExists: the ID is in use by a session that was started otherwise.
        """
        session = SessionId(session_id)
        message = None
        if initial_message is not None and initial_message.strip():
            self._refuse_unfit(initial_message)
            message = AgentUserMessage(initial_message)
        options = dex.StartFlowOptions(
            ignore_already_started=True,
            request_id=_start_request_id(self._flow.get_flow_type(), session, initial_message),
        )
        step = StartAgentSession(message)
        return await self._call(
            session, lambda: self._client.start_flow(self._flow, session, step, options)
        )

    async def send_user_message(
        self, session_id: str, text: str, *, message_id: str | None = None
    ) -> bool:
        """Queue a message; False when it is blank or too long.

        Give ``message_id`` to make a sending of your own repeatable.

        Raises:
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        session = SessionId(session_id)
        request = SendUserMessage(AgentUserMessage(text, message_id or _fresh_id()))
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(self._flow.send_user_message, session, request),
        )

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool,
        rejection_message: str | None = None,
        arguments_digest: str | None = None,
    ) -> bool:
        """Answer a question; False when it does not wait (any more), or its deadline has passed.

        ``arguments_digest`` refuses the answer unless the question is about exactly those arguments.

        Raises:
            ValueError: ``interrupt_id`` has not the form of one.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        session = SessionId(session_id)
        request = ResolveInterrupt(
            InterruptId(interrupt_id), approved, rejection_message, arguments_digest, _fresh_id()
        )
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(self._flow.resolve_interrupt, session, request),
        )

    async def get_agent_snapshot(self, session_id: str) -> AgentSnapshot:
        """All that a user interface shows of a session, also of a closed one.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session = SessionId(session_id)
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(
                self._flow.get_agent_snapshot, session, GetAgentSnapshot()
            ),
        )

    async def list_agent_messages(
        self, session_id: str, *, after_sequence: int = 0, limit: int = MAX_PAGE_MESSAGES
    ) -> AgentMessagesPage:
        """Stored messages behind ``after_sequence``, oldest first, at most 200 and 2 MiB.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session = SessionId(session_id)
        request = ListAgentMessages(after_sequence, limit)
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(self._flow.list_agent_messages, session, request),
        )

    async def read_agent_event(
        self, session_id: str, resume_token: str = "", *, timeout: timedelta | None = None
    ) -> ReadEvent | None:
        """The next event behind ``resume_token``, or the oldest one kept; None when none comes in time."""
        session = SessionId(session_id)
        try:
            with clear_errors(session, self._address):
                message = await self._client.read_stream(
                    session, self._flow.agent_events, resume_token, timeout
                )
        except dex.LongPollTimeoutError:
            return None
        return ReadEvent(message.value, message.resume_token)

    @property
    def _address(self) -> str:
        return self._client.options.server_address

    def _refuse_unfit(self, text: str) -> None:
        refusal = self._flow.options.user_message_refusal(text)
        if refusal is not None:
            raise ValueError(refusal)

    async def _call(self, session: SessionId, call: Callable[[], Awaitable[R]]) -> R:
        """Retry what changed nothing, or counts once: a lock conflict, or a server out of reach."""
        pause = _FIRST_PAUSE
        give_up_at = asyncio.get_running_loop().time() + _RETRIED_FOR.total_seconds()
        with clear_errors(session, self._address):
            while True:
                try:
                    return await call()
                except dex.DexServiceError as error:
                    passing = isinstance(error, dex.RpcLockConflictError) or is_unreachable(error)
                    if not passing or asyncio.get_running_loop().time() >= give_up_at:
                        raise
                await asyncio.sleep(pause.total_seconds())
                pause = min(pause * 2, _LONGEST_PAUSE)


def _start_request_id(flow_type: str, session: SessionId, message: str | None) -> str:
    payload = json.dumps([flow_type, session, message])
    return hashlib.sha256(payload.encode()).hexdigest()


def _fresh_id() -> str:
    return uuid4().hex
