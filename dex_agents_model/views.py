"""What each Step and each RPC loads, and nothing else. A view is a snapshot: others may have committed since."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from .calls import AgentToolCall
from .ids import SessionId, ToolCallId, TurnId
from .policy import AgentSessionOptions
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


@frozen(kw_only=True)
class SessionView:
    """The part that every view has: the session's name and status, and the options of its Flow type.

    ``state`` is None until StartAgentSession has committed. ``cancelled_turn`` is the turn that a
    person cancelled last; it stands apart from ``state``, so that no stale copy of the one can
    undo the other.
    """

    session_id: SessionId
    options: AgentSessionOptions
    state: AgentState | None
    cancelled_turn: TurnId | None = None

    def is_over(self, turn: TurnId) -> bool:
        """Whether ``turn`` has ended or is cancelled: what its Steps still do may change nothing."""
        return turn == self.cancelled_turn or self.has_ended(turn)

    def has_ended(self, turn: TurnId) -> bool:
        """Whether ``turn`` is not the one that the session runs."""
        return self.state is None or self.state.active_turn_id != turn


# --- views of Steps --------------------------------------------------------------------------


@frozen
class PendingSteering:
    """A message in the steering Channel, and the name by which the engine deletes it."""

    channel_message_id: str
    steering: SteeringMessage


@frozen(kw_only=True)
class TurnView(SessionView):
    """The running turn, whole: all stored messages, run state, and records in model order."""

    usage: AgentUsage
    messages: tuple[AgentMessage, ...]
    run_state: str | None
    tool_calls: tuple[AgentToolCall, ...]
    steering: tuple[TakenSteering, ...] = ()
    summary: HistorySummary | None = None
    overhead_tokens: int = 0
    """What the runner adds to each input by itself: instructions, tool definitions."""


@frozen(kw_only=True)
class CompactionView(SessionView):
    """What a summary is made from, and what it is added to."""

    usage: AgentUsage
    messages: tuple[AgentMessage, ...]
    summary: HistorySummary | None


@frozen(kw_only=True)
class ResumeView(SessionView):
    """The running turn's records in model order, their long texts shortened, and what would steer it."""

    tool_calls: tuple[AgentToolCall, ...]
    pending_steering: tuple[PendingSteering, ...] = ()


@frozen(kw_only=True)
class UnfinishedTurnView(SessionView):
    """A turn that ends without an answer: run state, records in model order, and what stands beside them."""

    run_state: str | None
    tool_calls: tuple[AgentToolCall, ...]
    claimed: frozenset[ToolCallId] = frozenset()
    steering: tuple[TakenSteering, ...] = ()
    answers: tuple[AgentInterruptResolution, ...] = ()
    """Answers that were accepted but not yet taken by the Step that waits for them."""
    approval_count: int = 0


@frozen(kw_only=True)
class CallView(SessionView):
    """One tool call's own record, whole while it is open; None once the turn has cleared it.

    ``claimant`` is the delivery that may run a single-attempt call, None while none has claimed it.
    """

    record: AgentToolCall | None
    claimant: str | None = None


@frozen(kw_only=True)
class ApprovalView(CallView):
    """One tool call's record, the questions that wait for a person, and what would steer the turn.

    ``approval_count`` is how many decisions the session has kept.
    """

    interrupts: tuple[AgentInterrupt, ...]
    pending_steering: tuple[PendingSteering, ...] = ()
    approval_count: int = 0


StepView: TypeAlias = (
    SessionView
    | TurnView
    | CompactionView
    | ResumeView
    | UnfinishedTurnView
    | CallView
    | ApprovalView
)
"""What a Step loads."""


# --- views of RPCs ---------------------------------------------------------------------------


@frozen
class PendingUserMessage:
    """A message in the user queue, and the name by which the engine deletes it."""

    channel_message_id: str
    message: AgentUserMessage


@frozen(kw_only=True)
class RequestIdsView(SessionView):
    """What an RPC that has an ID for its repeats reads: the newest IDs taken, oldest first.

    Of all that were taken those that share their key with its own (`layout.request_ids_key`).
    """

    taken_request_ids: tuple[str, ...]


@frozen(kw_only=True)
class AnswerView(RequestIdsView):
    """The questions that wait for a person, and the IDs taken."""

    interrupts: tuple[AgentInterrupt, ...]


@frozen(kw_only=True)
class SteeringView(AnswerView):
    """The questions that wait for a person, the IDs taken, and what waits to steer the turn."""

    pending_steering: tuple[PendingSteering, ...]


@frozen(kw_only=True)
class QueueView(SessionView):
    """The user queue, oldest first."""

    queued: tuple[PendingUserMessage, ...]


@frozen(kw_only=True)
class QueueingView(RequestIdsView):
    """The user queue, oldest first, and the IDs taken."""

    queued: tuple[PendingUserMessage, ...]


@frozen(kw_only=True)
class ApprovalsView(SessionView):
    """Decisions about tool calls in their order, from the session's ``first``-th on, counted from 0."""

    approvals: tuple[ApprovalRecord, ...]
    first: int = 0


@frozen(kw_only=True)
class MessagesView(SessionView):
    """Stored messages in sequence order."""

    messages: tuple[AgentMessage, ...]


@frozen(kw_only=True)
class SnapshotView(MessagesView):
    """All that a user interface shows of a session; long texts of tool calls are shortened."""

    usage: AgentUsage
    interrupts: tuple[AgentInterrupt, ...]
    tool_calls: tuple[AgentToolCall, ...]
    queued_message_count: int
    approval_count: int = 0


RpcView: TypeAlias = (
    SessionView
    | RequestIdsView
    | AnswerView
    | SteeringView
    | CallView
    | QueueView
    | QueueingView
    | ApprovalsView
    | MessagesView
    | SnapshotView
)
"""What a request loads."""
