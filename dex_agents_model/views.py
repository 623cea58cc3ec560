"""What each Step and each RPC loads, and nothing else. A view is a snapshot: others may have committed since."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from .calls import AgentToolCall
from .ids import SessionId, TurnId
from .policy import AgentSessionOptions
from .records import AgentInterrupt, AgentMessage, AgentState, AgentUsage


@frozen(kw_only=True)
class SessionView:
    """The part that every view has: the session's name and status, and the options of its Flow type.

    ``state`` is None until StartAgentSession has committed.
    """

    session_id: SessionId
    options: AgentSessionOptions
    state: AgentState | None

    def runs(self, turn: TurnId) -> bool:
        """Whether ``turn`` is the session's turn and not over."""
        return self.state is not None and self.state.active_turn_id == turn


@frozen(kw_only=True)
class TurnView(SessionView):
    """The running turn, whole: all stored messages, run state, and records in model order."""

    usage: AgentUsage
    messages: tuple[AgentMessage, ...]
    run_state: str | None
    tool_calls: tuple[AgentToolCall, ...]


@frozen(kw_only=True)
class TurnRecordsView(SessionView):
    """The running turn without its messages: records in model order, their long texts shortened."""

    tool_calls: tuple[AgentToolCall, ...]


@frozen(kw_only=True)
class CallView(SessionView):
    """One tool call's own record, whole while it is open; None once the turn has cleared it."""

    record: AgentToolCall | None


@frozen(kw_only=True)
class ApprovalView(CallView):
    """One tool call's record, and the questions that wait for a person."""

    interrupts: tuple[AgentInterrupt, ...]


@frozen(kw_only=True)
class QueueView(SessionView):
    """What an RPC that takes an ID for its repeats reads: the newest IDs taken, oldest first."""

    taken_request_ids: tuple[str, ...]


@frozen(kw_only=True)
class AnswerView(QueueView):
    """The questions that wait for a person, and the IDs taken."""

    interrupts: tuple[AgentInterrupt, ...]


@frozen(kw_only=True)
class MessagesView(SessionView):
    """Stored messages in sequence order; all of them, or those that were asked for."""

    messages: tuple[AgentMessage, ...]


@frozen(kw_only=True)
class SnapshotView(MessagesView):
    """All that a user interface shows of a session; long texts of tool calls are shortened."""

    usage: AgentUsage
    interrupts: tuple[AgentInterrupt, ...]
    tool_calls: tuple[AgentToolCall, ...]
    queued_message_count: int


StepView: TypeAlias = SessionView | TurnView | TurnRecordsView | CallView | ApprovalView
RpcView: TypeAlias = QueueView | AnswerView | MessagesView | SnapshotView
