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
    SetInterrupts,
    StepDecision,
    WaitDecision,
)
from ..effects import DeadlineReached, Entered, InterruptAnswered
from ..errors import StateCorrupt
from ..events import InterruptRaised, InterruptResolved, TurnEvent
from ..notes import DEFAULT_REJECTION_MESSAGE, EXPIRED_MESSAGE
from ..records import AgentInterrupt
from ..steps import AwaitToolApproval
from ..text import clean_text, digest, shorten
from ..views import ApprovalView
from ..waits import ForInterruptResolution, NoWait
from .tools import finish, running_step

SHOWN_ARGUMENT_BYTES: Final = 1024
_SECOND: Final = timedelta(seconds=1)


def interrupt_for(record: AwaitingApproval) -> AgentInterrupt:
    """The question about ``record``. Its deadline is stamped by the Step that waits for the answer."""
    return AgentInterrupt(
        interrupt_id=record.interrupt_id,
        turn_id=record.turn_id,
        tool_call_id=record.tool_call_id,
        tool_name=record.tool_name,
        arguments=shorten(record.arguments, SHOWN_ARGUMENT_BYTES),
        arguments_digest=digest(record.arguments),
    )


def wait_for_answer(step: AwaitToolApproval, view: ApprovalView, now: datetime) -> WaitDecision:
    """Ask, with a deadline counted from now by the engine's clock; a question asked before keeps its own.

    A question that is gone from the list was answered: its answer is in the Channel, and no Timer
    may overtake it.
    """
    if not isinstance(view.record, AwaitingApproval):
        return WaitDecision(wait=NoWait())
    interrupt_id = view.record.interrupt_id
    asked = _find(view, interrupt_id)
    if asked is None:
        return WaitDecision(wait=ForInterruptResolution(interrupt_id))
    limit = view.options.interrupt_deadline
    stamped = asked
    if asked.deadline is None and limit is not None:
        stamped = evolve(asked, deadline=_whole_seconds_up(now + limit))
    raised = InterruptRaised(
        interrupt_id, stamped.tool_call_id, stamped.tool_name, stamped.deadline
    )
    listed = tuple(stamped if i.interrupt_id == interrupt_id else i for i in view.interrupts)
    return WaitDecision(
        commit=Commit(
            writes=() if stamped == asked else (SetInterrupts(listed),),
            events=(TurnEvent(step.turn, raised),),
        ),
        wait=ForInterruptResolution(interrupt_id, _until(stamped.deadline, now)),
    )


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
    resolved = InterruptResolved(answer.interrupt_id, answer.approved, answer.rejection_message)
    if not answer.approved:
        message = clean_text(answer.rejection_message or "") or DEFAULT_REJECTION_MESSAGE
        return finish(Rejected(record.call, message), events=(resolved,))
    runnable = Runnable(record.call)
    return StepDecision(
        commit=Commit(writes=(PutToolCall(runnable),), events=(TurnEvent(step.turn, resolved),)),
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
    left = tuple(i for i in view.interrupts if i.interrupt_id != asked.interrupt_id)
    return finish(
        Rejected(record.call, EXPIRED_MESSAGE, expired=True),
        writes=(SetInterrupts(left),),
        events=(InterruptResolved(asked.interrupt_id, False, EXPIRED_MESSAGE),),
    )


def nothing_to_ask(
    step: AwaitToolApproval, view: ApprovalView, on: Entered, now: datetime
) -> StepDecision:
    """The call no longer waits for a person."""
    return StepDecision(next=EndBranch())


def _find(view: ApprovalView, interrupt_id: str) -> AgentInterrupt | None:
    return next((i for i in view.interrupts if i.interrupt_id == interrupt_id), None)


def _until(deadline: datetime | None, now: datetime) -> timedelta | None:
    if deadline is None:
        return None
    return max(-((now - deadline) // _SECOND), 0) * _SECOND


def _whole_seconds_up(moment: datetime) -> datetime:
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + _SECOND
