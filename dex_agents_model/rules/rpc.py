"""What a session answers to those outside. A refusal is a False reply and changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from attrs import evolve

from ..calls import AgentToolCall, Failed, OutcomeUnknown, Rejected, Succeeded
from ..decision import (
    InterruptResolved,
    RpcDecision,
    SetInterrupts,
    SetTakenRequestIds,
    UserMessageQueued,
)
from ..records import AgentInterruptResolution, AgentMessage, AgentUserMessage
from ..requests import (
    MAX_PAGE_MESSAGES,
    MAX_READ_BYTES,
    AgentMessagesPage,
    AgentSnapshot,
    GetAgentSnapshot,
    ListAgentMessages,
    ResolveInterrupt,
    SendUserMessage,
)
from ..text import clean_text, shorten, size_bytes
from ..views import AnswerView, MessagesView, QueueView, SnapshotView

KEPT_REQUEST_IDS: Final = 256
_SHOWN_BYTES: Final = 2048


def queue_user_message(
    request: SendUserMessage, view: QueueView, now: datetime
) -> RpcDecision[bool]:
    """Put a message at the end of the queue, once however often the client repeats itself."""
    message = request.message
    if message.message_id and message.message_id in view.taken_request_ids:
        return RpcDecision(reply=True)
    if view.options.user_message_refusal(message.text) is not None:
        return RpcDecision(reply=False)
    cleaned = AgentUserMessage(clean_text(message.text), message.message_id)
    return RpcDecision(
        writes=_taken(view, message.message_id),
        publishes=(UserMessageQueued(cleaned),),
        reply=True,
    )


def resolve_interrupt(
    request: ResolveInterrupt, view: AnswerView, now: datetime
) -> RpcDecision[bool]:
    """Accept an answer to a question that still waits: from then on it counts, whatever the Timer does."""
    if request.request_id and request.request_id in view.taken_request_ids:
        return RpcDecision(reply=True)
    asked = next((i for i in view.interrupts if i.interrupt_id == request.interrupt_id), None)
    if asked is None:
        return RpcDecision(reply=False)
    too_late = asked.deadline is not None and now >= asked.deadline
    other_arguments = request.arguments_digest not in (None, asked.arguments_digest)
    if too_late or other_arguments:
        return RpcDecision(reply=False)
    resolution = AgentInterruptResolution(
        interrupt_id=request.interrupt_id,
        approved=request.approved,
        rejection_message=None if request.approved else request.rejection_message,
    )
    left = tuple(i for i in view.interrupts if i.interrupt_id != request.interrupt_id)
    return RpcDecision(
        writes=(SetInterrupts(left), *_taken(view, request.request_id)),
        publishes=(InterruptResolved(resolution),),
        reply=True,
    )


def show_session(
    request: GetAgentSnapshot, view: SnapshotView, now: datetime
) -> RpcDecision[AgentSnapshot]:
    """All that a user interface shows. Arguments and results of tool calls are shortened."""
    newest = tuple(reversed(_within_bounds(view.messages[::-1], MAX_PAGE_MESSAGES)))
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
        )
    )


def list_messages(
    request: ListAgentMessages, view: MessagesView, now: datetime
) -> RpcDecision[AgentMessagesPage]:
    """One page of stored messages, oldest first."""
    behind = tuple(m for m in view.messages if m.sequence > request.after_sequence)
    page = _within_bounds(behind, request.limit)
    return RpcDecision(reply=AgentMessagesPage(messages=page, has_more=len(page) < len(behind)))


def _taken(view: QueueView, request_id: str) -> tuple[SetTakenRequestIds, ...]:
    if not request_id:
        return ()
    return (SetTakenRequestIds((*view.taken_request_ids, request_id)[-KEPT_REQUEST_IDS:]),)


def _within_bounds(messages: tuple[AgentMessage, ...], limit: int) -> tuple[AgentMessage, ...]:
    kept: list[AgentMessage] = []
    left_bytes = MAX_READ_BYTES
    for message in messages[:limit]:
        left_bytes -= size_bytes(message.framework_item) + size_bytes(message.text or "")
        if kept and left_bytes < 0:
            break
        kept.append(message)
    return tuple(kept)


def _shown(record: AgentToolCall) -> AgentToolCall:
    call = evolve(record.call, arguments=shorten(record.arguments, _SHOWN_BYTES))
    match record:
        case Succeeded(output=output):
            return evolve(record, call=call, output=shorten(output, _SHOWN_BYTES))
        case Failed(error=error) | OutcomeUnknown(error=error):
            return evolve(record, call=call, error=shorten(error, _SHOWN_BYTES))
        case Rejected(rejection_message=message):
            return evolve(record, call=call, rejection_message=shorten(message, _SHOWN_BYTES))
        case _:
            return evolve(record, call=call)
