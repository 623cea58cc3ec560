"""What a session shows to those outside who read it: bounded, and changing nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from attrs import evolve

from ..calls import AgentToolCall, Failed, OutcomeUnknown, Rejected, Succeeded
from ..decision import RpcDecision
from ..records import ApprovalRecord
from ..requests import (
    MAX_PAGE_APPROVALS,
    MAX_PAGE_MESSAGES,
    MAX_READ_BYTES,
    AgentMessagesPage,
    AgentSnapshot,
    ApprovalsPage,
    GetAgentSnapshot,
    ListAgentMessages,
    ListApprovals,
    ListQueuedMessages,
    QueuedMessagesPage,
    message_bytes,
)
from ..text import shorten, size_bytes
from ..views import ApprovalsView, MessagesView, QueueView, SnapshotView

R = TypeVar("R")

_SHOWN_BYTES: Final = 2048


def show_session(
    request: GetAgentSnapshot, view: SnapshotView, now: datetime
) -> RpcDecision[AgentSnapshot]:
    """All that a user interface shows. Arguments and results of tool calls are shortened."""
    newest_first = _within_bounds(view.messages[::-1], MAX_PAGE_MESSAGES, message_bytes)
    newest = tuple(reversed(newest_first))
    return RpcDecision(
        reply=AgentSnapshot(
            session_id=view.session_id,
            observed_at=now,
            state=view.state,
            messages=newest,
            has_earlier_messages=len(newest) < len(view.messages),
            pending_interrupts=view.interrupts,
            tool_calls=tuple(map(_shown, view.tool_calls)),
            usage=view.usage,
            queued_message_count=view.queued_message_count,
            approval_count=view.approval_count,
        )
    )


def list_messages(
    request: ListAgentMessages, view: MessagesView, now: datetime
) -> RpcDecision[AgentMessagesPage]:
    """One page of stored messages, oldest first."""
    behind = tuple(m for m in view.messages if m.sequence > request.after_sequence)
    page = _within_bounds(behind, request.limit, message_bytes)
    return RpcDecision(reply=AgentMessagesPage(messages=page, has_more=len(page) < len(behind)))


def list_approvals(
    request: ListApprovals, view: ApprovalsView, now: datetime
) -> RpcDecision[ApprovalsPage]:
    """One page of decisions about tool calls, oldest first."""
    behind = view.approvals[max(request.after - view.first, 0) :]
    page = _within_bounds(behind, MAX_PAGE_APPROVALS, _approval_bytes)
    return RpcDecision(reply=ApprovalsPage(approvals=page, has_more=len(page) < len(behind)))


def list_queued_messages(
    request: ListQueuedMessages, view: QueueView, now: datetime
) -> RpcDecision[QueuedMessagesPage]:
    """The messages that wait for their turn, oldest first."""
    queued = tuple(pending.message for pending in view.queued)
    page = _within_bounds(queued, len(queued), message_bytes)
    return RpcDecision(reply=QueuedMessagesPage(messages=page, has_more=len(page) < len(queued)))


def _within_bounds(
    records: tuple[R, ...], limit: int, bytes_of: Callable[[R], int]
) -> tuple[R, ...]:
    """The first of ``records`` that one answer holds: one, however large it is."""
    kept: list[R] = []
    left_bytes = MAX_READ_BYTES
    for record in records[:limit]:
        left_bytes -= bytes_of(record)
        if kept and left_bytes < 0:
            break
        kept.append(record)
    return tuple(kept)


def _approval_bytes(approval: ApprovalRecord) -> int:
    texts = (approval.interrupt_id, approval.tool_name, approval.resolved_by, approval.reason)
    return sum(size_bytes(text) for text in texts if text)


def _shown(record: AgentToolCall) -> AgentToolCall:
    call = evolve(record.call, arguments=shorten(record.arguments, _SHOWN_BYTES))
    match record:
        case Succeeded(output=output):
            return evolve(
                record, call=call, output=shorten(output, _SHOWN_BYTES), framework_content=None
            )
        case Failed(error=error) | OutcomeUnknown(error=error):
            return evolve(record, call=call, error=shorten(error, _SHOWN_BYTES))
        case Rejected(rejection_message=message):
            return evolve(record, call=call, rejection_message=shorten(message, _SHOWN_BYTES))
        case _:
            return evolve(record, call=call)
