"""What is simulated, as data: one session, what people do, and the runner. How it is scheduled is not said here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, assert_never

from attrs import field, frozen

from ..ids import InterruptId, SessionId, ToolCallId, TurnId
from ..policy import AgentSessionOptions
from ..records import AgentUserMessage
from ..requests import Request, ResolveInterrupt, SendUserMessage
from ..runner import AgentFrameworkRunner

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""When every simulated session begins."""

_MS: Final = timedelta(milliseconds=1)


def since_epoch_ms(moment: datetime) -> int:
    return (moment - EPOCH) // _MS


@frozen
class Says:
    """A user sends ``text``; ``at`` is how long after the session's start at the earliest."""

    text: str
    at: timedelta = timedelta(0)


@frozen
class Answers:
    """A person answers the question about one tool call, once it has been raised.

    ``approved=None`` lets a search try both answers. It is given whether or not the question still
    waits: people answer late.
    """

    call: ToolCallId = field(converter=ToolCallId)
    approved: bool | None = None
    turn: TurnId = field(default=TurnId("turn-1"), converter=TurnId)
    at: timedelta = timedelta(0)

    @property
    def interrupt_id(self) -> InterruptId:
        return InterruptId.of(self.turn, self.call)


Act: TypeAlias = Says | Answers


@frozen(kw_only=True)
class Scenario:
    """One session and its surroundings. Each act is done at most once, in any order.

    ``clock_skews`` are those of the Workers: an RPC sees the engine's time plus any one of them.
    """

    name: str
    about: str
    runner: AgentFrameworkRunner
    options: AgentSessionOptions = AgentSessionOptions()
    first_message: str | None = None
    acts: tuple[Act, ...] = ()
    clock_skews: tuple[timedelta, ...] = (timedelta(0),)
    session_id: SessionId = SessionId("simulated")


def requests_for(act: Act, number: int) -> tuple[Request, ...]:
    """The request that ``act`` sends: one of these. ``number`` names it over its repeats."""
    match act:
        case Says(text):
            return (SendUserMessage(AgentUserMessage(text, f"message-{number}")),)
        case Answers(approved=approved):
            choices = (True, False) if approved is None else (approved,)
            return tuple(_answer(act, number, approved=choice) for choice in choices)
        case _:
            assert_never(act)


def _answer(act: Answers, number: int, *, approved: bool) -> ResolveInterrupt:
    return ResolveInterrupt(act.interrupt_id, approved, request_id=f"answer-{number}")
