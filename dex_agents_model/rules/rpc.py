"""What a session answers to those outside. A refusal is a False reply and changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ..calls import Runnable
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
    AgentUserMessage,
)
from ..requests import (
    KEPT_REQUEST_IDS,
    MAX_EDITED_ARGUMENT_BYTES,
    MAX_QUEUED_BYTES,
    MAX_STEERING_BYTES,
    CancelTurn,
    ClaimToolCall,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
    message_bytes,
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
from ..text import is_json_object, shorten, size_bytes
from ..views import (
    AnswerView,
    CallView,
    QueueingView,
    RequestIdsView,
    SessionView,
    SteeringView,
)
from .approval import superseded

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

_LABEL_BYTES: Final = 1024
_REJECTION_BYTES: Final = 8192


def queue_user_message(
    request: SendUserMessage, view: QueueingView, now: datetime
) -> RpcDecision[bool]:
    """Put a message at the end of the queue, once however often the client repeats itself."""
    message = request.message
    if _was_taken(request.request_id, view):
        return RpcDecision(reply=True)
    queued_bytes = sum(message_bytes(pending.message) for pending in view.queued)
    if not _is_acceptable(message, view, MAX_QUEUED_BYTES - queued_bytes):
        return RpcDecision(reply=False)
    return RpcDecision(
        writes=_taken(request.request_id, view),
        publishes=(UserMessageQueued(message),),
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
    waiting_bytes = sum(message_bytes(p.steering.message) for p in view.pending_steering)
    if not _is_acceptable(message, view, MAX_STEERING_BYTES - waiting_bytes):
        return RpcDecision(reply=False)
    answered = view.interrupts if steering.rejects_pending_approvals else ()
    return RpcDecision(
        writes=(
            *((SetInterrupts(()),) if answered else ()),
            *_taken(request.request_id, view),
        ),
        publishes=(
            SteeringQueued(steering),
            *(InterruptResolved(superseded(asked, now)) for asked in answered),
        ),
        reply=True,
    )


def withdraw_user_message(
    request: WithdrawUserMessage, view: QueueingView, now: datetime
) -> RpcDecision[bool]:
    """Take a message out of the queue while it is there; a repeat hears of the first time."""
    if _was_taken(request.request_id, view):
        return RpcDecision(reply=True)
    for pending in view.queued:
        if request.message_id and pending.message.message_id == request.message_id:
            return RpcDecision(
                writes=(
                    WithdrawQueued(pending.channel_message_id),
                    *_taken(request.request_id, view),
                ),
                reply=True,
            )
    return RpcDecision(reply=False)


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


def _is_acceptable(message: AgentUserMessage, view: SessionView, room_bytes: int) -> bool:
    """Whether the session takes ``message``, and there is room for it where it waits."""
    refusal = view.options.user_message_refusal(message.text, message.framework_content)
    return refusal is None and message_bytes(message) <= room_bytes


def _was_taken(request_id: str, view: RequestIdsView) -> bool:
    return request_id in view.taken_request_ids  # no empty one is ever among them


def _taken(request_id: str, view: RequestIdsView) -> tuple[SetTakenRequestIds, ...]:
    if not request_id:
        return ()
    return (SetTakenRequestIds((*view.taken_request_ids, request_id)[-KEPT_REQUEST_IDS:]),)


def _label(text: str | None, limit_bytes: int = _LABEL_BYTES) -> str | None:
    return None if text is None else shorten(text, limit_bytes)


def _fits(request: ResolveInterrupt, asked: AgentInterrupt, now: datetime) -> bool:
    """Whether the answer comes in time, is about what was shown, and puts only an object in its place."""
    in_time = asked.deadline is None or now < asked.deadline
    same_arguments = request.arguments_digest in (None, asked.arguments_digest)
    edited = request.edited_arguments
    fit_to_run = edited is None or (request.approved and _is_object(edited))
    return in_time and same_arguments and fit_to_run


def _is_object(text: str) -> bool:
    return size_bytes(text) <= MAX_EDITED_ARGUMENT_BYTES and is_json_object(text)
