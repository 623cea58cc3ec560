"""One method an RPC that changes a session: start it, speak to it, answer it. Nothing here waits for a turn."""

from __future__ import annotations

import hashlib
import json
from uuid import uuid4

import dex

from dex_agents_model.ids import InterruptId, SessionId, TurnId
from dex_agents_model.records import AgentUserMessage, SteeringMessage
from dex_agents_model.requests import (
    CancelTurn,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from dex_agents_model.steps import StartAgentSession
from dex_agents_model.user_messages import content_refusal

from .calling import PATIENT
from .session_reads import SessionReads


class SessionCalls(SessionReads):
    """Sessions of one Flow type.

    Every call may raise `EngineUnavailable`. A call that changes a session carries an ID which it
    keeps over its retries, so that it counts once.
    """

    async def start_session(
        self,
        session_id: str,
        initial_message: str | None = None,
        *,
        content: str | None = None,
        message_id: str | None = None,
    ) -> str:
        """Start a session, with a turn when there is a message; returns Dex's run ID.

        The same start again is one session, also once it was closed: look at it before you wait for a
        turn. A blank message is none. See `send_user_message` for ``content``.

        Raises:
            ValueError: the ID is no session ID, or the message is too long or unreadable.
            SessionAlreadyExists: the ID is in use by a session that was started otherwise.
        """
        session = SessionId(session_id)
        message = None
        if content is not None or (initial_message is not None and initial_message.strip()):
            message = self._message(initial_message or "", content, message_id or "")
            refusal = self._flow.options.user_message_refusal(message.text, content)
            if refusal is not None:
                raise ValueError(refusal)
        options = dex.StartFlowOptions(
            ignore_already_started=True,
            request_id=_start_request_id(
                self._flow.get_flow_type(),
                session,
                None if message is None else initial_message,
                content,
            ),
        )
        step = StartAgentSession(message)
        return await self._call(
            session, lambda: self._client.start_flow(self._flow, session, step, options)
        )

    async def send_user_message(
        self,
        session_id: str,
        text: str,
        *,
        content: str | None = None,
        message_id: str | None = None,
    ) -> bool:
        """Queue a message; False when it is blank or too long, or the queue holds 2 MiB.

        ``content`` is what goes to the model behind the text, such as images, as the framework's
        adapter writes it (`dex_agents_pydantic_ai.user_content`); the text may then be blank. Give
        ``message_id`` to make a sending of your own repeatable: under an ID that was taken nothing is
        sent, and True is the answer, as for a repeat.

        Raises:
            ValueError: the agent cannot read ``content``.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        request = SendUserMessage(self._message(text, content, message_id or _fresh_id()))
        return await self._ask(session_id, self._flow.send_user_message, request)

    async def steer_user_message(
        self,
        session_id: str,
        text: str,
        *,
        content: str | None = None,
        rejects_pending_approvals: bool = True,
        message_id: str | None = None,
    ) -> bool:
        """Speak to the turn that runs; it takes the message up before its next model call.

        A message that meets no such moment begins the next turn, ahead of the queue. Unless
        ``rejects_pending_approvals`` is False, the questions that wait for a person are answered
        with no. False when the message is blank or too long, or 1 MiB of such messages waits
        already. See `send_user_message` for ``content``.

        Raises:
            ValueError: the agent cannot read ``content``.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        message = self._message(text, content, message_id or _fresh_id())
        request = SteerUserMessage(SteeringMessage(message, rejects_pending_approvals))
        return await self._ask(session_id, self._flow.steer_user_message, request)

    async def withdraw_user_message(self, session_id: str, message_id: str) -> bool:
        """Take a queued message back; False once it was taken, or when there is none of this ID.

        Raises:
            ValueError: ``message_id`` cannot be an ID.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        request = WithdrawUserMessage(message_id, request_id=_fresh_id())
        try:
            return await self._ask(session_id, self._flow.withdraw_user_message, request)
        except dex.ChannelMessageNotFoundError:
            return False  # a turn took it in the same moment

    async def cancel_turn(self, session_id: str, turn_id: str | None = None) -> bool:
        """Stop a turn, the running one unless another is named; False when it does not run.

        True means accepted: the turn's one terminal event tells how it ended.

        Raises:
            ValueError: ``turn_id`` has not the form of one.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: Steps kept changing the session for a minute.
        """
        session = SessionId(session_id)
        turn = TurnId(turn_id) if turn_id is not None else await self._active_turn(session)
        if turn is None:
            return False
        request = CancelTurn(turn)
        return await self._ask(session_id, self._flow.cancel_turn, request, within=PATIENT)

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        *,
        approved: bool,
        rejection_message: str | None = None,
        arguments_digest: str | None = None,
        edited_arguments: str | None = None,
        resolved_by: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Answer a question; False when it does not wait (any more), or its deadline has passed.

        ``arguments_digest`` refuses the answer unless the question is about exactly those
        arguments. ``edited_arguments`` (JSON text of an object) replace them; ``resolved_by`` and
        ``reason`` are kept with the decision.

        Raises:
            ValueError: ``interrupt_id`` has not the form of one, or the digest or the edited
                arguments hold a character that UTF-8 cannot hold.
            SessionNotFound: there is no open session of this ID.
            SessionBusy: others kept changing the session for 5 seconds.
        """
        request = ResolveInterrupt(
            interrupt_id=InterruptId(interrupt_id),
            approved=approved,
            rejection_message=rejection_message,
            arguments_digest=arguments_digest,
            edited_arguments=edited_arguments,
            resolved_by=resolved_by,
            reason=reason,
            request_id=_fresh_id(),
        )
        return await self._ask(session_id, self._flow.resolve_interrupt, request)

    def _message(self, text: str, content: str | None, message_id: str) -> AgentUserMessage:
        message = AgentUserMessage(text, message_id, content)
        refusal = content_refusal(self._flow.runner, message)
        if refusal is not None:
            raise ValueError(refusal)
        return message


def _start_request_id(
    flow_type: str, session: SessionId, message: str | None, content: str | None
) -> str:
    beside = [] if content is None else [content]
    payload = json.dumps([flow_type, session, message, *beside])
    return hashlib.sha256(payload.encode()).hexdigest()


def _fresh_id() -> str:
    return uuid4().hex
