"""What a session answers to those outside. A refusal is a False reply and changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from attrs import evolve

from ..calls import AgentToolCall, Failed, OutcomeUnknown, Rejected, Runnable, Succeeded
from ..decision import (
    ClaimCall,
    GoTo,
    InterruptResolved,
    RpcDecision,
    SetCancelledTurn,
    SetInterrupts,
    SetTakenRequestIds,
    SteeringQueued,
    UserMessageQueued,
    WithdrawQueued,
)
from ..records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentUserMessage,
    SteeringMessage,
)
from ..requests import (
    MAX_EDITED_ARGUMENT_BYTES,
    MAX_PAGE_APPROVALS,
    MAX_PAGE_MESSAGES,
    MAX_QUEUED_BYTES,
    MAX_READ_BYTES,
    MAX_STEERING_BYTES,
    AgentMessagesPage,
    AgentSnapshot,
    ApprovalsPage,
    CancelTurn,
    ClaimToolCall,
    GetAgentSnapshot,
    ListAgentMessages,
    ListApprovals,
    ListQueuedMessages,
    QueuedMessagesPage,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from ..steps import (
    AwaitToolApproval,
    CallSingleAttemptTool,
    CallTool,
    CompactHistory,
    RecordCompactionFailure,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnCancelled,
    ResumeTurn,
    RunModel,
    Step,
)
from ..text import clean_text, is_json_object, shorten, size_bytes
from ..views import (
    AnswerView,
    ApprovalsView,
    CallView,
    MessagesView,
    QueueingView,
    QueueView,
    RequestIdsView,
    SessionView,
    SnapshotView,
    SteeringView,
)
from .approval import superseded
from .messages import cleaned

KEPT_REQUEST_IDS: Final = 64
"""Under each of 16 keys; so a repeat is known at least until as many other requests were taken."""
CANCELLED_STEPS: Final[tuple[type[Step], ...]] = (
    RunModel,
    CompactHistory,
    RecordCompactionFailure,
    ResumeTurn,
    AwaitToolApproval,
    CallTool,
    CallSingleAttemptTool,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
)
"""The Steps of a turn that a cancel ends; those that end a turn themselves go on."""

_SHOWN_BYTES: Final = 2048
_LABEL_BYTES: Final = 1024
_REJECTION_BYTES: Final = 8192


def queue_user_message(
    request: SendUserMessage, view: QueueingView, now: datetime
) -> RpcDecision[bool]:
    """Put a message at the end of the queue, once however often the client repeats itself."""
    message = request.message
    if _was_taken(request.request_id, view):
        return RpcDecision(reply=True)
    queued_bytes = sum(_size_bytes(pending.message) for pending in view.queued)
    if not _is_acceptable(message, view, MAX_QUEUED_BYTES - queued_bytes):
        return RpcDecision(reply=False)
    return RpcDecision(
        writes=_taken(request.request_id, view),
        publishes=(UserMessageQueued(cleaned(message)),),
        reply=True,
    )


def steer_user_message(
    request: SteerUserMessage, view: SteeringView, now: datetime
) -> RpcDecision[bool]:
    """Put a message before the queue and into the running turn, and answer with it what waits for a person."""
    steering = request.steering
    message = steering.message
    if _was_taken(request.request_id, view):
        return RpcDecision(reply=True)
    waiting_bytes = sum(_size_bytes(p.steering.message) for p in view.pending_steering)
    if not _is_acceptable(message, view, MAX_STEERING_BYTES - waiting_bytes):
        return RpcDecision(reply=False)
    answered = view.interrupts if steering.rejects_pending_approvals else ()
    queued = SteeringMessage(cleaned(message), steering.rejects_pending_approvals)
    return RpcDecision(
        writes=(
            *((SetInterrupts(()),) if answered else ()),
            *_taken(request.request_id, view),
        ),
        publishes=(
            SteeringQueued(queued),
            *(InterruptResolved(superseded(asked, now)) for asked in answered),
        ),
        reply=True,
    )


def withdraw_user_message(
    request: WithdrawUserMessage, view: QueueView, now: datetime
) -> RpcDecision[bool]:
    """Take a message out of the queue while it is there."""
    for pending in view.queued:
        if request.message_id and pending.message.message_id == request.message_id:
            return RpcDecision(writes=(WithdrawQueued(pending.channel_message_id),), reply=True)
    return RpcDecision(reply=False)


def list_queued_messages(
    request: ListQueuedMessages, view: QueueView, now: datetime
) -> RpcDecision[QueuedMessagesPage]:
    """The messages that wait for their turn, oldest first."""
    kept: list[AgentUserMessage] = []
    left_bytes = MAX_READ_BYTES
    for message in (pending.message for pending in view.queued):
        left_bytes -= size_bytes(message.text) + size_bytes(message.framework_content or "")
        if kept and left_bytes < 0:
            break
        kept.append(message)
    return RpcDecision(
        reply=QueuedMessagesPage(messages=tuple(kept), has_more=len(kept) < len(view.queued))
    )


def resolve_interrupt(
    request: ResolveInterrupt, view: AnswerView, now: datetime
) -> RpcDecision[bool]:
    """Accept an answer to a question that still waits: from then on it counts, whatever the Timer does."""
    if _was_taken(request.request_id, view):
        return RpcDecision(reply=True)
    asked = next((i for i in view.interrupts if i.interrupt_id == request.interrupt_id), None)
    if asked is None or not _fits(request, asked, now):
        return RpcDecision(reply=False)
    resolution = AgentInterruptResolution(
        interrupt_id=request.interrupt_id,
        approved=request.approved,
        resolved_at=now,
        rejection_message=None
        if request.approved
        else _label(request.rejection_message, _REJECTION_BYTES),
        edited_arguments=request.edited_arguments,
        resolved_by=_label(request.resolved_by),
        reason=_label(request.reason),
    )
    left = tuple(i for i in view.interrupts if i.interrupt_id != request.interrupt_id)
    return RpcDecision(
        writes=(SetInterrupts(left), *_taken(request.request_id, view)),
        publishes=(InterruptResolved(resolution),),
        reply=True,
    )


def cancel_turn(request: CancelTurn, view: SessionView, now: datetime) -> RpcDecision[bool]:
    """Stop every Step of the turn and let one Step record how it ended.

    The list of questions is emptied whatever was read of it: it may have been filled since.
    """
    if view.cancelled_turn == request.turn:
        return RpcDecision(reply=True)
    if view.has_ended(request.turn):
        return RpcDecision(reply=False)
    return RpcDecision(
        writes=(SetCancelledTurn(request.turn), SetInterrupts(())),
        reply=True,
        next=GoTo((RecordTurnCancelled(request.turn),)),
        cancel=CANCELLED_STEPS,
    )


def claim_tool_call(request: ClaimToolCall, view: CallView, now: datetime) -> RpcDecision[bool]:
    """Let the first delivery that asks run the call, and no other."""
    record = view.record
    is_of_turn = isinstance(record, Runnable) and record.turn_id == request.turn
    if view.is_over(request.turn) or not is_of_turn:
        return RpcDecision(reply=False)
    if view.claimant is not None:
        return RpcDecision(reply=view.claimant == request.claimant)
    return RpcDecision(writes=(ClaimCall(request.call, request.claimant),), reply=True)


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


def list_approvals(
    request: ListApprovals, view: ApprovalsView, now: datetime
) -> RpcDecision[ApprovalsPage]:
    """One page of decisions about tool calls, oldest first."""
    behind = view.approvals[max(request.after, 0) :]
    page = behind[:MAX_PAGE_APPROVALS]
    return RpcDecision(reply=ApprovalsPage(approvals=page, has_more=len(page) < len(behind)))


def _is_acceptable(message: AgentUserMessage, view: SessionView, room_bytes: int) -> bool:
    """Whether the session takes ``message``, and there is room for it where it waits."""
    refusal = view.options.user_message_refusal(message.text, message.framework_content)
    return refusal is None and _size_bytes(message) <= room_bytes


def _size_bytes(message: AgentUserMessage) -> int:
    return size_bytes(message.text) + size_bytes(message.framework_content or "")


def _was_taken(request_id: str, view: RequestIdsView) -> bool:
    return bool(request_id) and request_id in view.taken_request_ids


def _taken(request_id: str, view: RequestIdsView) -> tuple[SetTakenRequestIds, ...]:
    if not request_id:
        return ()
    return (SetTakenRequestIds((*view.taken_request_ids, request_id)[-KEPT_REQUEST_IDS:]),)


def _label(text: str | None, limit_bytes: int = _LABEL_BYTES) -> str | None:
    return None if text is None else shorten(clean_text(text), limit_bytes)


def _fits(request: ResolveInterrupt, asked: AgentInterrupt, now: datetime) -> bool:
    """Whether the answer comes in time, is about what was shown, and puts only an object in its place."""
    in_time = asked.deadline is None or now < asked.deadline
    same_arguments = request.arguments_digest in (None, asked.arguments_digest)
    edited = request.edited_arguments
    fit_to_run = edited is None or (request.approved and _is_object(edited))
    return in_time and same_arguments and fit_to_run


def _is_object(text: str) -> bool:
    is_storable = size_bytes(text) <= MAX_EDITED_ARGUMENT_BYTES and clean_text(text) == text
    return is_storable and is_json_object(text)


def _within_bounds(messages: tuple[AgentMessage, ...], limit: int) -> tuple[AgentMessage, ...]:
    kept: list[AgentMessage] = []
    left_bytes = MAX_READ_BYTES
    for message in messages[:limit]:
        texts = (message.framework_item, message.text or "", message.output or "")
        left_bytes -= sum(map(size_bytes, texts))
        if kept and left_bytes < 0:
            break
        kept.append(message)
    return tuple(kept)


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
