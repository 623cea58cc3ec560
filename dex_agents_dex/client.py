"""The way into sessions from outside: every call there is (`operations`), and what waits and watches."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Final, TypeAlias
from uuid import uuid4

import dex
from attrs import evolve, frozen

from dex_agents_model.events import (
    AgentEvent,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
)
from dex_agents_model.folding import LiveTurn, fold_event, live_turn_in
from dex_agents_model.ids import SessionId, TurnId
from dex_agents_model.records import (
    AgentMessage,
    MessageRole,
    TurnCancelled,
    TurnEnd,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.requests import AgentSnapshot
from dex_agents_model.wire import JsonData

from .errors import EngineUnavailable, MessageRefused, SessionNotFound, TurnNotFound
from .event_reads import ReadEvent
from .operations import SessionOperations

_LONG_POLL: Final = timedelta(seconds=20)
_SHORT_POLL: Final = timedelta(seconds=1)


@frozen
class EventsLost:
    """Events are missing before the next one; read a snapshot to know where the session stands."""


FollowedEvent: TypeAlias = ReadEvent | EventsLost
"""What `AgentSessionClient.follow` yields."""


@frozen(kw_only=True)
class TurnOutcome:
    """How a turn ended. ``messages`` are its stored ones, of `wait_for_turn` those that a snapshot still shows."""

    turn_id: TurnId
    end: TurnEnd
    messages: tuple[AgentMessage, ...]

    @property
    def answer(self) -> str | None:
        """The model's final answer; None for a turn that failed or was cancelled."""
        if not isinstance(self.end, TurnSucceeded):
            return None
        said = (m.text for m in reversed(self.messages) if m.role is MessageRole.ASSISTANT)
        return next(said, None)

    @property
    def output(self) -> JsonData:
        """The final answer as data, when the agent ends its turns with a type; else None."""
        kept = self.messages[-1].output if self.messages else None
        return None if kept is None else json.loads(kept)


class AgentSessionClient(SessionOperations):
    """Sessions of one Flow type, as an application uses them; `AgentRuntime.sessions` makes it.

    Every call may raise `EngineUnavailable`, `AccessDenied` and, where a Worker is to answer and none
    does, `WorkerFailed`.
    """

    async def follow(
        self,
        session_id: str,
        from_token: str | None = None,
        *,
        since: AgentSnapshot | None = None,
        through: str | None = None,
    ) -> AsyncGenerator[FollowedEvent, None]:
        """Every event behind ``from_token`` (else: from now on), once each, until the caller stops.

        ``since`` a snapshot, instead: every event behind its token, but of no turn that had ended by
        then. Fold them into `live_turn_in` of it. ``through`` the position of an event, it ends behind
        that one, or with the newest there is when that one was cut off.

        It outlasts Workers and servers. Where the Stream was cut before it was read, or lost with
        a server, it yields `EventsLost`. Use ``contextlib.aclosing`` to end it early.
        """
        session = SessionId(session_id)
        live, is_first = LiveTurn(), since is None
        if since is not None:
            live, from_token = live_turn_in(since), since.event_token
        token = await self._latest_event_token(session) if from_token is None else from_token
        poll = _LONG_POLL if through is None else _SHORT_POLL
        while True:
            try:
                read = await self.read_agent_event(session, token, timeout=poll)
            except EngineUnavailable:
                continue  # it has been tried for a while; whoever follows decides when to stop
            if read is None and through is not None:
                return
            if read is None:
                continue
            token = read.resume_token
            folded = fold_event(live, read.event)
            if folded is not live:  # else it was read before, or a later attempt has replaced it
                if folded.lost and not is_first:
                    yield EventsLost()
                live, is_first = evolve(folded, lost=False), False
                yield read
            if token == through:
                return

    async def wait_for_turn(self, session_id: str, turn_id: str | None = None) -> TurnOutcome:
        """Wait until a turn has ended: the one that is named, else the one that runs or ended last.

        A session that was only just started is given the time to begin. Bound the wait with
        ``asyncio.timeout``.

        Raises:
            SessionNotFound: there is no session of this ID, or it was closed before the turn ended.
            TurnNotFound: no turn has begun yet, or not the one that is named; or that one ended so
                long ago that a snapshot shows nothing of it any more.
        """
        snapshot = await self.get_agent_snapshot(session_id)
        while snapshot.state is None:  # its first Step is still to commit
            await self.require_open(session_id)
            await self.read_agent_event(session_id, snapshot.event_token, timeout=_SHORT_POLL)
            snapshot = await self.get_agent_snapshot(session_id)
        begun = snapshot.state.turn_count
        turn = TurnId(turn_id) if turn_id is not None else TurnId.of(max(begun, 1))
        if turn.number > begun:
            raise TurnNotFound(
                f"session {session_id!r} has begun {begun} turns; there is no {turn}"
            )
        end = await self._await_end(session_id, turn, snapshot.event_token, _end_in(snapshot, turn))
        messages = (await self.get_agent_snapshot(session_id)).messages
        own = tuple(message for message in messages if message.turn_id == turn)
        return TurnOutcome(turn_id=turn, end=end, messages=own)

    async def run_turn(
        self, session_id: str, text: str, *, content: str | None = None
    ) -> TurnOutcome:
        """Send a message, and wait until the turn that it begins has ended.

        Bound the wait with ``asyncio.timeout``: a tool may wait for a person.

        Raises:
            ValueError: the agent cannot read ``content``.
            MessageRefused: the message is blank or too long, the queue holds 2 MiB, or the message was
                withdrawn before a turn took it.
            SessionNotFound: there is no open session of this ID, or it was closed meanwhile.
        """
        token = await self._latest_event_token(SessionId(session_id))
        message_id = uuid4().hex
        if not await self.send_user_message(
            session_id, text, content=content, message_id=message_id
        ):
            refusal = self._flow.options.user_message_refusal(text, content)
            refusal = refusal or "too much waits in its queue already"
            raise MessageRefused(f"the message was not sent to session {session_id!r}: {refusal}")
        begun = None
        while begun is None:
            read = await self.read_agent_event(session_id, token, timeout=_LONG_POLL)
            if read is None:
                begun = await self._begun_by(session_id, message_id)
            else:
                token, begun = read.resume_token, _begun_in(read.event, message_id)
        end = await self._await_end(session_id, begun.turn, token, None)
        own = await self._messages_of(session_id, begun)
        return TurnOutcome(turn_id=begun.turn, end=end, messages=own)

    async def _messages_of(self, session_id: str, begun: _Begun) -> tuple[AgentMessage, ...]:
        own: list[AgentMessage] = []
        while True:
            last = own[-1].sequence if own else begun.sequence - 1
            page = await self.list_agent_messages(session_id, after_sequence=last)
            new = [message for message in page.messages if message.turn_id == begun.turn]
            own += new
            if not page.has_more or len(new) < len(page.messages):
                return tuple(own)

    async def _begun_by(self, session_id: str, message_id: str) -> _Begun | None:
        """The turn that a message began; None while it waits in the queue."""
        queue = await self.list_queued_messages(session_id)  # read first: a turn may take it now
        begun = await self._opened_by(session_id, message_id)
        if begun is None:
            await self.require_open(session_id)
            waits = queue.has_more or any(m.message_id == message_id for m in queue.messages)
            if not waits:
                raise MessageRefused(
                    f"the message to session {session_id!r} was withdrawn before a turn took it"
                )
        return begun

    async def _opened_by(self, session_id: str, message_id: str) -> _Begun | None:
        """The turn that a stored message opened. Of a long turn no snapshot shows the first message."""
        snapshot = await self.get_agent_snapshot(session_id)
        messages, is_all = snapshot.messages, not snapshot.has_earlier_messages
        last = 0
        while True:
            for message in messages:
                if message.message_id == message_id:
                    return _Begun(message.turn_id, message.sequence)
            if is_all:
                return None
            page = await self.list_agent_messages(session_id, after_sequence=last)
            messages, is_all = page.messages, not page.has_more
            last = messages[-1].sequence if messages else last

    async def require_open(self, session_id: str) -> None:
        """Pass when the session is open: what waits in it can still go on.

        Raises:
            SessionNotFound: there is no session of this ID, or it is closed.
        """
        info = await self._describe(SessionId(session_id))
        if info.status is not dex.FlowStatus.RUNNING:
            raise SessionNotFound(
                f"session {session_id!r} is closed ({info.status.value}): no turn of it ends any more"
            )

    async def _await_end(
        self, session_id: str, turn: TurnId, token: str, end: TurnEnd | None
    ) -> TurnEnd:
        while end is None:
            read = await self.read_agent_event(session_id, token, timeout=_LONG_POLL)
            if read is None:  # events may be lost; the session's state never is
                end = _end_in(await self.get_agent_snapshot(session_id), turn)
                if end is None:
                    await self.require_open(session_id)
            else:
                token, end = read.resume_token, _end_told_by(read.event, turn)
        return end


@frozen
class _Begun:
    """A turn, and the sequence of the message that opened it."""

    turn: TurnId
    sequence: int


def _begun_in(event: AgentEvent, message_id: str) -> _Begun | None:
    match event.payload:
        case TurnStarted(sequence, begun_by) if begun_by == message_id and event.turn_id:
            return _Begun(event.turn_id, sequence)
        case _:
            return None


def _end_told_by(event: AgentEvent, turn: TurnId) -> TurnEnd | None:
    if event.turn_id != turn:
        return None
    match event.payload:
        case TurnCompletedEvent(message_count):
            return TurnSucceeded(message_count)
        case TurnFailedEvent(error):
            return TurnFailed(error)
        case TurnCancelledEvent():
            return TurnCancelled()
        case _:
            return None


def _end_in(snapshot: AgentSnapshot, turn: TurnId) -> TurnEnd | None:
    """How ``turn`` ended, as far as a snapshot still shows; None while it runs or is about to.

    Raises:
        TurnNotFound: it shows nothing of the turn any more.
    """
    state = snapshot.state
    if state is None or state.active_turn_id == turn or state.turn_count < turn.number:
        return None
    if isinstance(state, WaitingForUserMessage) and state.turn_count == turn.number:
        return state.last_turn
    own = [message for message in snapshot.messages if message.turn_id == turn]
    if not own:
        raise TurnNotFound(
            f"{turn} of session {snapshot.session_id!r} ended so long ago that a snapshot shows"
            " nothing of it; read what was said in it with list_agent_messages"
        )
    if own[-1].role is MessageRole.ASSISTANT:
        return TurnSucceeded(len(own) - 1)
    return TurnFailed("the turn ended without an answer, and later turns have begun since")
