"""A story on a Dex server with a Worker: what the session really looks like at each moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from attrs import define, field

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import AgentTestStack, wait_until
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentEvent
from dex_agents_model.requests import (
    CancelTurn,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)

from .moment import Course, Ended, Moment, Ran, anonymous, stretches, told, untimed
from .story import Act, Asks, LetsGo, Story, TimePasses, WorkerDies
from .witnessed import gate_of, ran_in


async def play(
    stack: AgentTestStack, state_dir: Path, expected: Mapping[Story, Course]
) -> dict[Story, Course]:
    """What became of all stories, played at once, each as a session.

    Each goes on when it looks as ``expected``, and ends where it never does. Its last moment is
    looked at once more when all have ended. The Worker is killed once, when all stories that need
    it wait for that and the others have ended.
    """
    worker = await stack.start_worker()
    sessions = [
        _Session(stack, state_dir, story, course.moments) for story, course in expected.items()
    ]
    await asyncio.gather(*(session.begin() for session in sessions))
    dying = [session for session in sessions if session.story.needs_death]
    if dying:
        await stack.start_worker()  # first, so that no task has to wait for a Worker
        worker.kill()
        await asyncio.gather(*(session.go_on() for session in dying))
    courses = await asyncio.gather(*(session.look_back() for session in sessions))
    return {session.story: course for session, course in zip(sessions, courses, strict=True)}


@define
class _Session:
    stack: AgentTestStack
    state_dir: Path
    story: Story
    expected: tuple[Moment, ...]
    moments: list[Moment] = field(factory=list)
    session_id: str = field(init=False)
    _left: list[Act] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.session_id = f"{self.story.flow_type}-{uuid4().hex[:8]}"
        self._left = list(self.story.acts)

    @property
    def client(self) -> AgentSessionClient:
        return self.stack.sessions(self.story.flow_type)

    async def begin(self) -> None:
        """Play until the Worker is to die, or to the end."""
        await self.client.start_session(self.session_id, self.story.first_message)
        await self._play(None)

    async def go_on(self) -> None:
        """Play from the Worker's death to the end."""
        if self._is_as_expected():
            await self._play(None)

    async def _play(self, reply: bool | None) -> None:
        while self._left:
            act = self._left.pop(0)
            if not isinstance(act, TimePasses):
                await self._look(reply)
                if isinstance(act, WorkerDies) or not self._is_as_expected():
                    return
            reply = await self._do(act)
        await self._look(reply)

    def _is_as_expected(self) -> bool:
        return tuple(self.moments) == self.expected[: len(self.moments)]

    async def look_back(self) -> Course:
        """How the story went. What came after its end is a difference, too."""
        *before, latest = self.moments
        moments = (*before, await self._seen(latest.reply))
        return Course(moments, () if self.story.cuts_off else told(await self._events()))

    async def _look(self, reply: bool | None) -> None:
        """Add the moment at which the session has come as far as expected, or at which it stays behind."""
        expected = self.expected[len(self.moments)]

        async def has_come_so_far() -> bool:
            history = stretches(await self._history())
            return history == expected.history and self._ran() == expected.ran

        with suppress(TimeoutError):  # the difference of the two moments tells more
            await wait_until(f"a moment of {self.session_id!r}", has_come_so_far)
        self.moments.append(await self._seen(reply))

    async def _seen(self, reply: bool | None) -> Moment:
        snapshot = await self.client.get_agent_snapshot(self.session_id)
        page = await self.client.list_approvals(self.session_id)
        return Moment(
            reply,
            self._ran(),
            stretches(await self._history()),
            anonymous(snapshot),
            untimed(page.approvals),
        )

    def _ran(self) -> tuple[Ran, ...]:
        return ran_in(self.state_dir, self.session_id)

    async def _events(self) -> list[AgentEvent]:
        """All events until now."""
        newest = (await self.client.get_agent_snapshot(self.session_id)).event_token
        events: list[AgentEvent] = []
        token = ""
        while token != newest:
            read = await self.client.read_agent_event(
                self.session_id, token, timeout=DEFAULT_TIMEOUT
            )
            assert read is not None, f"the newest event of {self.session_id!r} never comes"
            events.append(read.event)
            token = read.resume_token
        return events

    async def _history(self) -> list[Ended]:
        return [
            Ended(entry.event_type, entry.step_type, entry.final_attempt)
            for entry in await self.stack.read_step_history(self.session_id)
        ]

    async def _do(self, act: Act) -> bool | None:
        match act:
            case LetsGo(name):
                gate_of(self.state_dir, self.session_id, name).release()
                return None
            case TimePasses() | WorkerDies():
                return None
            case request:
                return await self._ask(request)

    async def _ask(self, request: Asks) -> bool:
        client, session = self.client, self.session_id
        match request:
            case SendUserMessage(message):
                return await client.send_user_message(
                    session, message.text, message_id=message.message_id
                )
            case SteerUserMessage(steering):
                return await client.steer_user_message(
                    session,
                    steering.message.text,
                    rejects_pending_approvals=steering.rejects_pending_approvals,
                    message_id=steering.message.message_id,
                )
            case WithdrawUserMessage(message_id):
                return await client.withdraw_user_message(session, message_id)
            case CancelTurn(turn):
                return await client.cancel_turn(session, turn)
            case ResolveInterrupt():
                return await client.resolve_interrupt(
                    session,
                    request.interrupt_id,
                    approved=request.approved,
                    rejection_message=request.rejection_message,
                    arguments_digest=request.arguments_digest,
                    edited_arguments=request.edited_arguments,
                    resolved_by=request.resolved_by,
                    reason=request.reason,
                )
