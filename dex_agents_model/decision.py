"""What a Step or an RPC commits, all of it or nothing. Data only: nothing in this file does anything."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from attrs import field, frozen, validators

from .calls import AgentToolCall, FinalCall, ToolCallCompleted
from .effects import Effect
from .events import TurnEvent
from .ids import InterruptId, ToolCallId, TurnId
from .records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentUsage,
    AgentUserMessage,
    ApprovalRecord,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
)
from .steps import Step
from .waits import Wait

R = TypeVar("R", covariant=True)


# --- writes --------------------------------------------------------------------------------


@frozen
class SetState:
    """Replace what the session is doing."""

    state: AgentState


@frozen
class SetUsage:
    """Replace what the session has used."""

    usage: AgentUsage


@frozen
class SetInterrupts:
    """The whole list of questions that wait for a person, in the order in which they were raised."""

    interrupts: tuple[AgentInterrupt, ...]


@frozen
class PutToolCall:
    """Store a tool call's record, in place of the one before."""

    record: AgentToolCall


@frozen
class SetRunState:
    """Replace what the runner needs to go on with the turn."""

    run_state: str


@frozen
class AppendMessages:
    """Store messages behind those that are stored."""

    messages: tuple[AgentMessage, ...]


@frozen
class AppendUserMessage:
    """Store what a user said in the form that the runner gives it (`build_user_message`)."""

    sequence: int
    turn: TurnId
    message: AgentUserMessage


@frozen
class ClearTurn:
    """Delete the run state, every tool call record and claim, and the steering taken: the turn is over."""


@frozen
class SetSummary:
    """Replace the summary of the session's history."""

    summary: HistorySummary


@frozen
class DropMessages:
    """Delete stored messages that a summary stands for."""

    sequences: tuple[int, ...]


@frozen
class TakeSteering:
    """Delete these messages of the steering Channel and keep them with the turn, ``first`` counted from 0."""

    channel_message_ids: tuple[str, ...]
    first: int
    taken: tuple[TakenSteering, ...]


@frozen
class SetCancelledTurn:
    """Note which turn a person stopped last."""

    turn: TurnId


@frozen
class ClaimCall:
    """This delivery, and no other, may run the call."""

    call: ToolCallId
    claimant: str


@frozen
class DrainChannels:
    """Delete what was told to the Steps of a turn that ends early: every tool call result, and these answers."""

    interrupt_ids: tuple[InterruptId, ...]


@frozen
class WithdrawQueued:
    """Delete one message of the user queue; nothing is committed when it is gone."""

    channel_message_id: str


@frozen
class RecordApproval:
    """Keep who decided what, as the session's ``number``-th decision, from 0; from then on it has one more."""

    record: ApprovalRecord
    number: int


@frozen
class SetTakenRequestIds:
    """The newest IDs of requests that were taken, oldest first."""

    request_ids: tuple[str, ...]


Write: TypeAlias = (
    SetState
    | SetUsage
    | SetInterrupts
    | PutToolCall
    | SetRunState
    | AppendMessages
    | AppendUserMessage
    | ClearTurn
    | SetSummary
    | DropMessages
    | TakeSteering
    | SetCancelledTurn
    | ClaimCall
    | DrainChannels
    | WithdrawQueued
    | RecordApproval
    | SetTakenRequestIds
)
"""One change of what is stored."""


# --- publishes -----------------------------------------------------------------------------


@frozen
class ToolCallFinished:
    """Tell ResumeTurn that one more record is final."""

    record: FinalCall

    @property
    def message(self) -> ToolCallCompleted:
        """What goes to the Channel: which call, not what it returned."""
        return ToolCallCompleted(self.record.turn_id, self.record.tool_call_id)


@frozen
class UserMessageQueued:
    """Put a message into the user queue."""

    message: AgentUserMessage


@frozen
class SteeringQueued:
    """Put a message before the queue and into the turn that runs."""

    steering: SteeringMessage


@frozen
class InterruptResolved:
    """Tell AwaitToolApproval what a person decided."""

    resolution: AgentInterruptResolution


Publish: TypeAlias = ToolCallFinished | UserMessageQueued | SteeringQueued | InterruptResolved
"""One message to a Channel of the session."""


# --- decisions -----------------------------------------------------------------------------


@frozen(kw_only=True)
class Commit:
    """One atomic change. Events are best effort and reach readers before the rest is durable."""

    writes: tuple[Write, ...] = ()
    publishes: tuple[Publish, ...] = ()
    events: tuple[TurnEvent, ...] = ()


@frozen
class GoTo:
    """Queue these Steps, in this order."""

    steps: tuple[Step, ...] = field(validator=validators.min_len(1))


@frozen
class EndBranch:
    """Queue nothing; the session's other branches go on."""


@frozen(kw_only=True)
class StepDecision:
    """What a Step's execute ends with."""

    commit: Commit = Commit()
    next: GoTo | EndBranch


@frozen(kw_only=True)
class WaitDecision:
    """What a Step's wait_for ends with."""

    commit: Commit = Commit()
    wait: Wait


@frozen(kw_only=True)
class RpcDecision(Generic[R]):
    """What an RPC ends with. It has no events: an RPC cannot write a Stream.

    ``cancel`` ends every queued or running Step of these classes before ``next`` is queued.
    """

    writes: tuple[Write, ...] = ()
    publishes: tuple[Publish, ...] = ()
    reply: R
    next: GoTo | None = None
    cancel: tuple[type[Step], ...] = ()


Reaction: TypeAlias = Effect | StepDecision
"""What `react` gives: something to ask for first, or the end of the execution."""
