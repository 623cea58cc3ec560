"""What of a session is compared, in a form in which two engines may be compared. How it is obtained, others know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from attrs import evolve, frozen

from dex_agents_model import AgentEvent, AgentSnapshot, SessionId, TurnId
from dex_agents_model.calls import OutcomeUnknown
from dex_agents_model.events import EventPayload, InterruptRaised, StepMethod
from dex_agents_model.records import ApprovalRecord
from dex_agents_model.simulation import EPOCH

_SESSION: Final = SessionId("any")
_CONTROL: Final = frozenset(
    {
        "StartAgentSession",
        "AwaitUserMessage",
        "RunModel",
        "CompactHistory",
        "ResumeTurn",
        "RecordTurnFailure",
        "RecordTurnCancelled",
    }
)
"""The Steps of a session's one control branch: their order of execution is fixed."""


class Ended(NamedTuple):
    """One method of one Step that ended for good: the event's type, the Step's, and its last attempt."""

    event_type: str
    step_type: str
    attempt: int


class Ran(NamedTuple):
    """A call of the runner that began. ``name`` is ``model``, ``summary``, or the tool's."""

    name: str
    key: str
    attempt: int


@frozen
class Stretch:
    """From one execution of the control branch to the next: what ended between, in any order."""

    between: tuple[Ended, ...]
    then: Ended | None


@frozen
class Moment:
    """A session once all has happened that could: ``reply`` is what the act before it was answered."""

    reply: bool | None
    ran: tuple[Ran, ...]
    history: tuple[Stretch, ...]
    snapshot: AgentSnapshot
    approvals: tuple[ApprovalRecord, ...]


@frozen
class Told:
    """An event, and what of its origin is the same everywhere."""

    turn: TurnId
    step_type: str
    method: StepMethod
    attempt: int
    index: int
    payload: EventPayload


@frozen
class Course:
    """How a story went. ``told`` are all its events, in no order; none where attempts were cut off."""

    moments: tuple[Moment, ...]
    told: tuple[Told, ...]


def told(events: Iterable[AgentEvent]) -> tuple[Told, ...]:
    """``events`` without their order, which chance gives to those of parallel Steps."""
    found = (
        Told(
            event.turn_id,
            event.step_execution_id.rpartition("-")[0],
            event.method,
            event.attempt,
            event.index,
            _untimed_payload(event.payload),
        )
        for event in events
    )
    return tuple(sorted(found, key=repr))


def stretches(history: Iterable[Ended]) -> tuple[Stretch, ...]:
    """``history`` without the order that chance gives it."""
    found: list[Stretch] = []
    between: list[Ended] = []
    for ended in history:
        if ended.step_type in _CONTROL and ended.event_type.startswith("step_execute"):
            found.append(Stretch(tuple(sorted(between)), ended))
            between = []
        else:
            between.append(ended)
    return (*found, Stretch(tuple(sorted(between)), None))


def anonymous(snapshot: AgentSnapshot) -> AgentSnapshot:
    """``snapshot`` without what no two engines share.

    That is its name, its time, its position in the events, and the words for a Worker that is lost.
    """
    return evolve(
        snapshot,
        session_id=_SESSION,
        observed_at=EPOCH,
        event_token="",
        pending_interrupts=tuple(
            evolve(asked, deadline=asked.deadline and EPOCH)
            for asked in snapshot.pending_interrupts
        ),
        tool_calls=tuple(
            evolve(call, error="") if isinstance(call, OutcomeUnknown) else call
            for call in snapshot.tool_calls
        ),
    )


def untimed(approvals: Iterable[ApprovalRecord]) -> tuple[ApprovalRecord, ...]:
    """``approvals`` by their questions: decisions of one second have no order."""
    kept = (evolve(approval, decided_at=EPOCH) for approval in approvals)
    return tuple(sorted(kept, key=lambda approval: approval.interrupt_id))


def _untimed_payload(payload: EventPayload) -> EventPayload:
    if isinstance(payload, InterruptRaised):
        return evolve(payload, deadline=payload.deadline and EPOCH)
    return payload
