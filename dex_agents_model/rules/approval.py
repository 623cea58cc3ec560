"""How a person's answer, or its absence, decides whether a call may run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from attrs import evolve

from ..calls import AwaitingApproval, Rejected, Runnable
from ..decision import (
    Commit,
    EndBranch,
    GoTo,
    PutToolCall,
    RecordApproval,
    SetInterrupts,
    StepDecision,
    WaitDecision,
)
from ..decision import InterruptResolved as PublishAnswer
from ..effects import DeadlineReached, Entered, InterruptAnswered
from ..errors import StateCorrupt
from ..events import InterruptRaised, InterruptResolved, TurnEvent
from ..notes import DEFAULT_REJECTION_MESSAGE, EXPIRED_MESSAGE, SUPERSEDED_MESSAGE
from ..records import (
    AgentInterrupt,
    AgentInterruptResolution,
    ApprovalDecision,
    ApprovalRecord,
)
from ..steps import AwaitToolApproval
from ..text import digest, shorten
from ..views import ApprovalView
from ..waits import ForInterruptResolution, NoWait
from .tools import finish, running_step

MAX_PENDING_APPROVALS: Final = 100
_SHOWN_TOTAL_BYTES: Final = 24 * 1024
_SHOWN_BYTES: Final = 1024
_SECOND: Final = timedelta(seconds=1)


def interrupts_for(records: tuple[AwaitingApproval, ...]) -> tuple[AgentInterrupt, ...]:
    """The questions about ``records``, small enough to travel with every Step.

    A deadline is stamped by the Step that waits for the answer.
    """
    shown_bytes = min(_SHOWN_BYTES, _SHOWN_TOTAL_BYTES // max(len(records), 1))
    return tuple(
        AgentInterrupt(
            interrupt_id=record.interrupt_id,
            turn_id=record.turn_id,
            tool_call_id=record.tool_call_id,
            tool_name=record.tool_name,
            arguments=shorten(record.arguments, shown_bytes),
            arguments_digest=digest(record.arguments),
        )
        for record in records
    )


def superseded(interrupt: AgentInterrupt, now: datetime) -> AgentInterruptResolution:
    """The answer that a user gives who speaks to the turn instead: no."""
    return AgentInterruptResolution(
        interrupt_id=interrupt.interrupt_id,
        approved=False,
        resolved_at=now,
        rejection_message=SUPERSEDED_MESSAGE,
        superseded=True,
    )


def approval_record(
    record: AwaitingApproval,
    answer: AgentInterruptResolution | None,
    *,
    otherwise: ApprovalDecision,
    now: datetime,
) -> ApprovalRecord:
    """What is kept of a decision: the person's, or ``otherwise`` when there was none."""
    decision, decided_at = otherwise, now
    if answer is not None:
        decided_at = answer.resolved_at
        decision = ApprovalDecision.APPROVED if answer.approved else ApprovalDecision.REJECTED
        if answer.superseded:
            decision = ApprovalDecision.SUPERSEDED
    edited = None if answer is None else answer.edited_arguments
    return ApprovalRecord(
        interrupt_id=record.interrupt_id,
        turn_id=record.turn_id,
        tool_call_id=record.tool_call_id,
        tool_name=record.tool_name,
        arguments_digest=digest(record.arguments),
        decision=decision,
        decided_at=decided_at,
        resolved_by=None if answer is None else answer.resolved_by,
        reason=None if answer is None else answer.reason,
        edited_arguments_digest=None if edited is None else digest(edited),
    )


def wait_for_answer(step: AwaitToolApproval, view: ApprovalView, now: datetime) -> WaitDecision:
    """Ask, with a deadline counted from now by the engine's clock; a question asked before keeps its own.

    A question that is gone from the list was answered: its answer is in the Channel, and no Timer
    may overtake it. One that a waiting steering message rejects answers itself.
    """
    if not isinstance(view.record, AwaitingApproval):
        return WaitDecision(wait=NoWait())
    interrupt_id = view.record.interrupt_id
    asked = _find(view, interrupt_id)
    if asked is None:
        return WaitDecision(wait=ForInterruptResolution(interrupt_id))
    if any(pending.steering.rejects_pending_approvals for pending in view.pending_steering):
        return WaitDecision(
            commit=Commit(
                writes=(SetInterrupts(_without(view, interrupt_id)),),
                publishes=(PublishAnswer(superseded(asked, now)),),
            ),
            wait=ForInterruptResolution(interrupt_id),
        )
    return _ask(step, view, asked, now)


def take_answer(
    step: AwaitToolApproval, view: ApprovalView, on: InterruptAnswered, now: datetime
) -> StepDecision:
    """Apply a person's answer to the one call that it names."""
    answer = on.resolution
    record = view.record
    if not isinstance(record, AwaitingApproval):
        return StepDecision(next=EndBranch())
    if answer.interrupt_id != record.interrupt_id:
        raise StateCorrupt(f"{record.interrupt_id} was given the answer to {answer.interrupt_id}")
    kept = RecordApproval(
        approval_record(record, answer, otherwise=ApprovalDecision.REJECTED, now=now),
        view.approval_count,
    )
    if not answer.approved:
        message = answer.rejection_message or DEFAULT_REJECTION_MESSAGE
        return finish(
            Rejected(record.call, message),
            writes=(kept,),
            events=(InterruptResolved(answer.interrupt_id, False, message),),
        )
    runnable = Runnable(record.call)
    if answer.edited_arguments is not None:
        runnable = Runnable(
            evolve(record.call, arguments=answer.edited_arguments, arguments_edited=True)
        )
    resolved = InterruptResolved(answer.interrupt_id, True, None)
    return StepDecision(
        commit=Commit(
            writes=(PutToolCall(runnable), kept), events=(TurnEvent(step.turn, resolved),)
        ),
        next=GoTo((running_step(runnable),)),
    )


def expire(
    step: AwaitToolApproval, view: ApprovalView, on: DeadlineReached, now: datetime
) -> StepDecision:
    """Reject what nobody answered in time.

    An answer that was accepted in the same moment has taken the question from the list: the Step
    waits again and applies it.
    """
    record = view.record
    if not isinstance(record, AwaitingApproval):
        return StepDecision(next=EndBranch())
    asked = _find(view, record.interrupt_id)
    if asked is None or asked.deadline is None or now < asked.deadline:
        return StepDecision(next=GoTo((step,)))
    expired = approval_record(record, None, otherwise=ApprovalDecision.EXPIRED, now=now)
    kept = RecordApproval(expired, view.approval_count)
    return finish(
        Rejected(record.call, EXPIRED_MESSAGE, expired=True),
        writes=(SetInterrupts(_without(view, asked.interrupt_id)), kept),
        events=(InterruptResolved(asked.interrupt_id, False, EXPIRED_MESSAGE),),
    )


def nothing_to_ask(
    step: AwaitToolApproval, view: ApprovalView, on: Entered, now: datetime
) -> StepDecision:
    """The call no longer waits for a person."""
    return StepDecision(next=EndBranch())


def _ask(
    step: AwaitToolApproval, view: ApprovalView, asked: AgentInterrupt, now: datetime
) -> WaitDecision:
    limit = view.options.interrupt_deadline
    stamped = asked
    if asked.deadline is None and limit is not None:
        stamped = evolve(asked, deadline=_whole_seconds_up(now + limit))
    listed = tuple(stamped if i.interrupt_id == asked.interrupt_id else i for i in view.interrupts)
    raised = InterruptRaised(
        stamped.interrupt_id, stamped.tool_call_id, stamped.tool_name, stamped.deadline
    )
    return WaitDecision(
        commit=Commit(
            writes=() if stamped == asked else (SetInterrupts(listed),),
            events=(TurnEvent(step.turn, raised),),
        ),
        wait=ForInterruptResolution(stamped.interrupt_id, _until(stamped.deadline, now)),
    )


def _without(view: ApprovalView, interrupt_id: str) -> tuple[AgentInterrupt, ...]:
    return tuple(i for i in view.interrupts if i.interrupt_id != interrupt_id)


def _find(view: ApprovalView, interrupt_id: str) -> AgentInterrupt | None:
    return next((i for i in view.interrupts if i.interrupt_id == interrupt_id), None)


def _until(deadline: datetime | None, now: datetime) -> timedelta | None:
    if deadline is None:
        return None
    return max(-((now - deadline) // _SECOND), 0) * _SECOND


def _whole_seconds_up(moment: datetime) -> datetime:
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + _SECOND
