"""Faults in approvals: who is asked, and whose answer counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve

from dex_agents_model import table
from dex_agents_model.calls import Rejected, Runnable
from dex_agents_model.decision import (
    PutToolCall,
    RecordApproval,
    RpcDecision,
    SetInterrupts,
    SetTakenRequestIds,
    StepDecision,
    Write,
)
from dex_agents_model.effects import (
    DeadlineReached,
    InterruptAnswered,
    ToolCallsRequested,
    ToolReturned,
)
from dex_agents_model.ids import InterruptId
from dex_agents_model.records import ApprovalDecision, ApprovalRecord
from dex_agents_model.requests import ResolveInterrupt
from dex_agents_model.simulation import EPOCH
from dex_agents_model.spec import Lock
from dex_agents_model.steps import (
    AwaitToolApproval,
    CallSingleAttemptTool,
    CallTool,
    RunModel,
    Step,
)
from dex_agents_model.text import digest

from ..planting import Rule, both, decisions, going, replies, row, rpc, spec, without, writing
from .planted import (
    ANSWERS_ARE_APPLIED,
    QUESTIONS_MIRROR_CALLS,
    REST_IS_FOR_PEOPLE,
    PlantedFault,
    dropping,
    finished,
)


def _expires_without_a_look(rule: Rule, step: Step, view: Any, on: object, now: datetime) -> object:
    if all(each.interrupt_id != view.record.interrupt_id for each in view.interrupts):
        return finished(Rejected(view.record.call, "too late", expired=True))
    return rule(step, view, on, now)


def _approves_in_any_case(
    rule: Rule, step: Step, view: object, on: InterruptAnswered, now: datetime
) -> object:
    return rule(step, view, InterruptAnswered(evolve(on.resolution, approved=True)), now)


_RESOLVE: Final[Any] = table.RPC_OF[ResolveInterrupt].rule


def _as_if_in_time(request: object, view: object, now: datetime) -> object:
    return _RESOLVE(request, view, now - timedelta(hours=1))


def _as_if_too_late(request: object, view: object, now: datetime) -> object:
    return _RESOLVE(request, view, now + timedelta(minutes=2))


def _keeping_the_question(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, SetInterrupts))
    )


def _with_other_arguments(write: Write) -> Write:
    if isinstance(write, PutToolCall) and isinstance(write.record, Runnable):
        return PutToolCall(Runnable(evolve(write.record.call, arguments='{"order":8}')))
    return write


def _runnable_at_once(write: Write) -> Write | None:
    if isinstance(write, PutToolCall):
        return PutToolCall(Runnable(write.record.call))
    return None if isinstance(write, SetInterrupts) else write


def _running_at_once(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        CallTool(each.turn, each.call) if isinstance(each, AwaitToolApproval) else each
        for each in steps
    )


def _without_the_edit(
    rule: Rule, step: Step, view: Any, on: InterruptAnswered, now: datetime
) -> Any:
    return rule(step, view, InterruptAnswered(evolve(on.resolution, edited_arguments=None)), now)


def _as_the_first(write: Write) -> Write:
    return evolve(write, number=0) if isinstance(write, RecordApproval) else write


def _decided_again(decision: StepDecision) -> StepDecision:
    """The Step that ends a call writes down once more how it was decided."""
    (call,) = (w.record.call for w in decision.commit.writes if isinstance(w, PutToolCall))
    again = ApprovalRecord(
        InterruptId.of(call.turn_id, call.tool_call_id),
        call.turn_id,
        call.tool_call_id,
        call.tool_name,
        digest(call.arguments),
        ApprovalDecision.APPROVED,
        EPOCH,
    )
    writes = (*decision.commit.writes, RecordApproval(again, 1))
    return evolve(decision, commit=evolve(decision.commit, writes=writes))


def _kept(**changes: Any) -> Callable[[StepDecision], StepDecision]:
    """How a call was decided is kept with these changes."""

    def bend(write: Write) -> Write:
        if not isinstance(write, RecordApproval):
            return write
        return evolve(write, record=evolve(write.record, **changes))

    return writing(bend)


def _refusing(request: object, view: object, now: datetime) -> RpcDecision[bool]:
    return RpcDecision(reply=False)


_SECOND: Final = timedelta(seconds=1)
_HOW: Final = "each decision says how it was made"
_REPEATED: Final = "a repeated request is answered as before"

FAULTS: Final = (
    PlantedFault(
        "an answered question expires",
        row(AwaitToolApproval, DeadlineReached, _expires_without_a_look),
        "deadline+0",
        ANSWERS_ARE_APPLIED,
    ),
    PlantedFault(
        "AwaitToolApproval.execute takes no lock",
        spec(AwaitToolApproval, execute_locks=()),
        "deadline+0",
        ANSWERS_ARE_APPLIED,
    ),
    PlantedFault(
        "AwaitToolApproval.wait_for takes no lock",
        spec(AwaitToolApproval, wait_locks=()),
        "two-questions",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "resolve_interrupt takes no lock",
        rpc(ResolveInterrupt, locks=()),
        "two-questions",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "resolve_interrupt keeps the question",
        replies(ResolveInterrupt, _keeping_the_question),
        "three-tools",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "a late answer is accepted",
        rpc(ResolveInterrupt, rule=_as_if_in_time),
        "deadline+0",
        "late answers are refused",
    ),
    PlantedFault(
        "a timely answer is refused",
        rpc(ResolveInterrupt, rule=_as_if_too_late),
        "two-questions",
        "timely answers are accepted",
    ),
    PlantedFault(
        "an expired question stays in the list",
        decisions(AwaitToolApproval, DeadlineReached, writing(without(SetInterrupts))),
        "two-questions",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "a question is not put in the list",
        decisions(RunModel, ToolCallsRequested, writing(without(SetInterrupts))),
        "three-tools",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "a rejected call runs",
        row(AwaitToolApproval, InterruptAnswered, _approves_in_any_case),
        "two-questions",
        "approval comes before running",
    ),
    PlantedFault(
        "an approved call runs with other arguments",
        decisions(AwaitToolApproval, InterruptAnswered, writing(_with_other_arguments)),
        "two-questions",
        "approval comes before running",
    ),
    PlantedFault(
        "nobody is asked",
        both(
            decisions(RunModel, ToolCallsRequested, writing(_runnable_at_once)),
            decisions(RunModel, ToolCallsRequested, going(_running_at_once)),
        ),
        "two-questions",
        "approval comes before running",
    ),
    PlantedFault(
        "an approved call is forgotten",
        decisions(AwaitToolApproval, InterruptAnswered, going(lambda steps: ())),
        "cancel",
        REST_IS_FOR_PEOPLE,
    ),
    PlantedFault(
        "an edited call runs with its old arguments",
        row(AwaitToolApproval, InterruptAnswered, _without_the_edit),
        "two-questions",
        "approval comes before running",
    ),
    PlantedFault(
        "a decision is not kept",
        decisions(AwaitToolApproval, InterruptAnswered, writing(without(RecordApproval))),
        "three-tools",
        "each decision is kept once",
    ),
    PlantedFault(
        "a decision takes the place of another",
        decisions(AwaitToolApproval, InterruptAnswered, writing(_as_the_first)),
        "three-tools",
        "each decision is kept once",
    ),
    PlantedFault(
        "a decision is kept twice",
        decisions(CallSingleAttemptTool, ToolReturned, _decided_again),
        "answer-and-queue",
        "each decision is kept once",
    ),
    PlantedFault(
        "an expiry is kept as a person's rejection",
        decisions(AwaitToolApproval, DeadlineReached, _kept(decision=ApprovalDecision.REJECTED)),
        "two-questions",
        _HOW,
    ),
    PlantedFault(
        "a decision is kept without its time",
        decisions(AwaitToolApproval, InterruptAnswered, _kept(decided_at=EPOCH - _SECOND)),
        "two-questions",
        _HOW,
    ),
    PlantedFault(
        "a decision is kept with other arguments than were shown",
        decisions(AwaitToolApproval, InterruptAnswered, _kept(arguments_digest="sha256:0")),
        "two-questions",
        _HOW,
    ),
    PlantedFault(
        "no answer is accepted",
        rpc(ResolveInterrupt, rule=_refusing),
        "answer-and-queue",
        "timely answers are accepted",
    ),
    PlantedFault(
        "a repeated answer is refused",
        replies(ResolveInterrupt, dropping(SetTakenRequestIds)),
        "answer-and-queue",
        _REPEATED,
    ),
    PlantedFault(
        "resolve_interrupt locks no request IDs",
        rpc(ResolveInterrupt, locks=(Lock.INTERRUPTS,)),
        "answer-and-queue",
        _REPEATED,
    ),
)
