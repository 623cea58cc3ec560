"""What is simulated, as data: one session, what people do, and the runner. How it is scheduled is not said here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias, assert_never

from attrs import field, frozen

from ..ids import InterruptId, SessionId, ToolCallId, TurnId
from ..policy import AgentSessionOptions
from ..records import AgentUserMessage, SteeringMessage
from ..requests import (
    CancelTurn,
    Request,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
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
    edited_arguments: str | None = None
    at: timedelta = timedelta(0)

    @property
    def interrupt_id(self) -> InterruptId:
        """The question that is answered."""
        return InterruptId.of(self.turn, self.call)


@frozen
class Steers:
    """A user speaks to the turn that runs, if one runs."""

    text: str
    rejects_pending_approvals: bool = True
    at: timedelta = timedelta(0)


@frozen
class Withdraws:
    """A user takes back what act number ``said`` of the scenario said, at any time."""

    said: int
    at: timedelta = timedelta(0)


@frozen
class Cancels:
    """A person cancels a turn, once it has begun and whether or not it still runs."""

    turn: TurnId = field(default=TurnId("turn-1"), converter=TurnId)
    at: timedelta = timedelta(0)


Act: TypeAlias = Says | Steers | Withdraws | Answers | Cancels
"""What people do."""


@frozen(kw_only=True)
class Scenario:
    """One session and its surroundings. Each act is done at most once, in any order.

    ``clock_skews`` are those of the Workers: an RPC sees the engine's time plus any one of them.
    ``other_options`` are those of Workers of other deployments that run beside: whatever is handed
    to a Worker may be handed to any.
    ``is_timed``: backoffs take their time. Where nothing depends on it, a retry that may come at
    any moment shows a search the same, in far fewer worlds.
    """

    name: str
    about: str
    runner: AgentFrameworkRunner
    options: AgentSessionOptions = AgentSessionOptions()
    other_options: tuple[AgentSessionOptions, ...] = ()
    first_message: str | None = None
    acts: tuple[Act, ...] = ()
    clock_skews: tuple[timedelta, ...] = (timedelta(0),)
    is_timed: bool = True
    session_id: SessionId = SessionId("simulated")

    @property
    def deployments(self) -> tuple[AgentSessionOptions, ...]:
        """The options of each deployment; a Worker is of one of them."""
        return (self.options, *self.other_options)


def requests_for(act: Act, number: int) -> tuple[Request, ...]:
    """The request that ``act`` sends: one of these. ``number`` names it over its repeats."""
    match act:
        case Says(text):
            return (SendUserMessage(AgentUserMessage(text, f"message-{number}")),)
        case Steers(text, rejects):
            message = AgentUserMessage(text, f"message-{number}")
            return (SteerUserMessage(SteeringMessage(message, rejects)),)
        case Withdraws(said):
            return (WithdrawUserMessage(f"message-{said}", f"withdrawal-{number}"),)
        case Answers(approved=approved):
            choices = (True, False) if approved is None else (approved,)
            return tuple(_answer(act, number, approved=choice) for choice in choices)
        case Cancels(turn):
            return (CancelTurn(turn),)
        case _:
            assert_never(act)


def is_open(act: Act, turns: int, raised: frozenset[str]) -> bool:
    """Whether people can do ``act`` in a session that has begun ``turns`` turns and ``raised`` these questions."""
    match act:
        case Says() | Steers() | Withdraws():
            return True
        case Answers():
            return act.interrupt_id in raised
        case Cancels(turn):
            return turns >= turn.number
        case _:
            assert_never(act)


def _answer(act: Answers, number: int, *, approved: bool) -> ResolveInterrupt:
    return ResolveInterrupt(
        act.interrupt_id,
        approved,
        edited_arguments=act.edited_arguments if approved else None,
        request_id=f"answer-{number}",
    )
