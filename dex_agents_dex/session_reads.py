"""How a session is read from outside, and how it is asked at all. Nothing here changes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import dex
from attrs import evolve

from dex_agents_model.ids import InterruptId, SessionId, ToolCallId, TurnId
from dex_agents_model.requests import (
    MAX_PAGE_MESSAGES,
    AgentMessagesPage,
    AgentSnapshot,
    ApprovalsPage,
    GetAgentSnapshot,
    ListAgentMessages,
    ListApprovals,
    ListQueuedMessages,
    QueuedMessagesPage,
    Request,
)
from dex_agents_model.table import answer
from dex_agents_model.text import digest
from dex_agents_model.views import ApprovalsView, MessagesView, SnapshotView

from .calling import BRIEF, read_entries, retrying
from .entries import Entries
from .entry_texts import ReadEntries, StoredTexts
from .event_reads import Position, ReadAhead, ReadEvent
from .flow import AgentSessionFlow
from .loads import options_of
from .pages import (
    arguments_of,
    calls_to_show,
    decisions_behind,
    messages_behind,
    newest_messages,
)
from .schema import AGENT_TOOL_CALLS

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")


class SessionReads:
    """Sessions of one Flow type. Every call may raise `EngineUnavailable`."""

    def __init__(self, client: dex.AsyncClient, flow: AgentSessionFlow) -> None:
        self._client = client
        self._flow = flow
        self._read_ahead = ReadAhead()

    async def get_agent_snapshot(self, session_id: str) -> AgentSnapshot:
        """All that a user interface shows of a session, also of a closed one.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session = SessionId(session_id)
        token = await self._latest_event_token(session)  # read first: what comes later is behind it
        snapshot = await self._snapshot_with_calls(session)
        messages = await newest_messages(self._entries(session), snapshot.state)
        view = SnapshotView(
            session_id=session,
            options=self._flow.options,
            state=snapshot.state,
            messages=messages,
            usage=snapshot.usage,
            interrupts=snapshot.pending_interrupts,
            tool_calls=snapshot.tool_calls,
            queued_message_count=snapshot.queued_message_count,
            approval_count=snapshot.approval_count,
        )
        shown = answer(GetAgentSnapshot(), view, snapshot.observed_at).reply
        assert isinstance(shown, AgentSnapshot), "the table answers each request with its reply"
        return evolve(shown, event_token=token)

    async def list_agent_messages(
        self, session_id: str, *, after_sequence: int = 0, limit: int = MAX_PAGE_MESSAGES
    ) -> AgentMessagesPage:
        """Stored messages behind ``after_sequence``, oldest first, at most 200 and 2 MiB.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session, request = SessionId(session_id), ListAgentMessages(after_sequence, limit)
        snapshot = await self._snapshot(session)
        view = MessagesView(
            session_id=session,
            options=self._flow.options,
            state=snapshot.state,
            messages=await messages_behind(self._entries(session), snapshot.state, request),
        )
        page = answer(request, view, snapshot.observed_at).reply
        assert isinstance(page, AgentMessagesPage), "the table answers each request with its reply"
        return page

    async def list_approvals(self, session_id: str, *, after: int = 0) -> ApprovalsPage:
        """Who decided what about which tool call, behind the first ``after`` decisions, oldest first.

        At most 500 and 2 MiB.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        session, request = SessionId(session_id), ListApprovals(max(after, 0))
        snapshot = await self._snapshot(session)
        kept = await decisions_behind(self._entries(session), snapshot.approval_count, request)
        view = ApprovalsView(
            session_id=session,
            options=self._flow.options,
            state=snapshot.state,
            approvals=kept,
            first=request.after,
        )
        page = answer(request, view, snapshot.observed_at).reply
        assert isinstance(page, ApprovalsPage), "the table answers each request with its reply"
        return page

    async def get_interrupt_arguments(self, session_id: str, interrupt_id: str) -> str | None:
        """The arguments that a question is about, whole: the text that its ``arguments_digest`` names.

        A snapshot shows them shortened. None when the question does not wait (any more).

        Raises:
            ValueError: ``interrupt_id`` has not the form of one.
            SessionNotFound: there is no session of this ID.
        """
        session, interrupt = SessionId(session_id), InterruptId(interrupt_id)
        waiting = (await self._snapshot(session)).pending_interrupts
        asked = next((each for each in waiting if each.interrupt_id == interrupt), None)
        if asked is None:
            return None
        arguments = await arguments_of(self._entries(session), asked.tool_call_id)
        # They are read after the question: by then the call may be another turn's, or edited.
        is_asked_about = arguments is not None and digest(arguments) == asked.arguments_digest
        return arguments if is_asked_about else None

    async def list_queued_messages(self, session_id: str) -> QueuedMessagesPage:
        """The messages that wait for their turn, oldest first, at most 2 MiB.

        Raises:
            SessionNotFound: there is no session of this ID.
        """
        return await self._ask(session_id, self._flow.list_queued_messages, ListQueuedMessages())

    async def read_agent_event(
        self, session_id: str, resume_token: str = "", *, timeout: timedelta | None = None
    ) -> ReadEvent | None:
        """The next event behind ``resume_token``, or the oldest one kept; None when none comes in time.

        Several events may come in one message of the server: those are then read without asking it.
        The token of each is a position of its own, which any client goes on from: behind that event.
        """
        session, position = SessionId(session_id), Position.of(resume_token)
        read = self._read_ahead.next_event(session, position)
        if read is not None:
            return read
        try:
            message = await self._call(
                session,
                lambda: self._client.read_stream(
                    session, self._flow.agent_events, position.before, timeout
                ),
            )
        except dex.LongPollTimeoutError:
            return None
        return self._read_ahead.first_event(session, position, message)

    async def _latest_event_token(self, session: SessionId) -> str:
        newest = await self._call(
            session,
            lambda: self._client.list_stream_messages(session, self._flow.agent_events, 1),
        )
        return newest.messages[0].resume_token if newest.messages else ""

    async def _snapshot_with_calls(self, session: SessionId) -> AgentSnapshot:
        """A snapshot that shows the running turn's calls: which they are, only a snapshot tells."""
        asked: tuple[ToolCallId, ...] = ()
        while True:
            snapshot = await self._snapshot(session, asked)
            shown = calls_to_show(snapshot.state)
            if set(shown) <= set(asked):
                return snapshot
            asked = shown

    async def _snapshot(
        self, session: SessionId, calls: tuple[ToolCallId, ...] = ()
    ) -> AgentSnapshot:
        """One moment of the session, without its messages."""
        request = GetAgentSnapshot()
        options = dex.RPCInvokeOptions(
            load_attribute_map_instances=tuple(map(AGENT_TOOL_CALLS.load, calls))
        )
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(
                self._flow.get_agent_snapshot, session, request, options=options
            ),
        )

    def _entries(self, session: SessionId) -> Entries:
        async def ask(entries: dex.AttributeMap[Any], request: ReadEntries) -> StoredTexts:
            rpc = self._flow.stored_entries
            return await read_entries(self._client, rpc, session, entries, request)

        return Entries(ask)

    async def _active_turn(self, session: SessionId) -> TurnId | None:
        state = (await self._snapshot(session)).state
        return None if state is None else state.active_turn_id

    async def _ask(
        self,
        session_id: str,
        rpc: Callable[[dex.Context, Q], dex.RPCResult[R]],
        request: Q,
        *,
        within: timedelta = BRIEF,
    ) -> R:
        session, options = SessionId(session_id), options_of(request)
        return await self._call(
            session,
            lambda: self._client.invoke_rpc(rpc, session, request, options=options),
            within=within,
        )

    async def _call(
        self, session: SessionId, call: Callable[[], Awaitable[R]], *, within: timedelta = BRIEF
    ) -> R:
        return await retrying(self._client, session, call, within=within)
