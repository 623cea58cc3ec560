"""The faults that the simulator must find: one promise each, dropped or bent, and where it shows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve, frozen

from dex_agents_model import table
from dex_agents_model.calls import Failed, Rejected, Runnable
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    EndBranch,
    PutToolCall,
    RpcDecision,
    SetInterrupts,
    SetState,
    SetTakenRequestIds,
    SetUsage,
    StepDecision,
    ToolCallFinished,
    WaitDecision,
    Write,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    DeadlineReached,
    InterruptAnswered,
    ToolCallsRequested,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    UserSpoke,
)
from dex_agents_model.events import TurnCompletedEvent, TurnEvent
from dex_agents_model.ids import TurnId
from dex_agents_model.records import WaitingForUserMessage
from dex_agents_model.requests import ResolveInterrupt, SendUserMessage
from dex_agents_model.steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    RecordToolOutcomeUnknown,
    RecordTurnFailure,
    ResumeTurn,
    RunModel,
    Step,
)
from dex_agents_model.waits import ForToolResults

from .planting import (
    Plant,
    Rule,
    both,
    decisions,
    going,
    publishing,
    replies,
    row,
    rpc,
    spec,
    waits,
    without,
    writing,
)


@frozen
class PlantedFault:
    """``plant`` it, and a search of ``scenario`` finds that ``broken`` does not hold."""

    name: str
    plant: Plant
    scenario: str
    broken: str


def _finished(record: Rejected | Failed) -> StepDecision:
    return StepDecision(
        commit=Commit(writes=(PutToolCall(record),), publishes=(ToolCallFinished(record),)),
        next=EndBranch(),
    )


def _expires_without_a_look(rule: Rule, step: Step, view: Any, on: object, now: datetime) -> object:
    if all(each.interrupt_id != view.record.interrupt_id for each in view.interrupts):
        return _finished(Rejected(view.record.call, "too late", expired=True))
    return rule(step, view, on, now)


def _approves_in_any_case(
    rule: Rule, step: Step, view: object, on: InterruptAnswered, now: datetime
) -> object:
    return rule(step, view, InterruptAnswered(evolve(on.resolution, approved=True)), now)


def _calls_it_failed(
    rule: Rule, step: Step, view: Any, on: AttemptsExhausted, now: datetime
) -> StepDecision:
    return _finished(Failed(view.record.call, on.detail))


def _goes_on_whatever_is_open(
    rule: Rule, step: Step, view: Any, on: object, now: datetime
) -> object:
    return rule(step, evolve(view, tool_calls=()), on, now)


def _one_result_less(decision: WaitDecision) -> WaitDecision:
    if isinstance(decision.wait, ForToolResults) and decision.wait.count > 1:
        return evolve(decision, wait=ForToolResults(decision.wait.count - 1))
    return decision


_RESOLVE: Final[Any] = table.RPC_OF[ResolveInterrupt].rule


def _as_if_in_time(request: object, view: object, now: datetime) -> object:
    return _RESOLVE(request, view, now - timedelta(hours=1))


def _keeping_the_question(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, SetInterrupts))
    )


def _forgetting_the_request(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, SetTakenRequestIds))
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


def _one_sequence_further(write: Write) -> Write:
    if isinstance(write, AppendMessages):
        return AppendMessages(tuple(evolve(m, sequence=m.sequence + 1) for m in write.messages))
    return write


def _without_call_ids(write: Write) -> Write:
    if isinstance(write, AppendMessages):
        return AppendMessages(tuple(evolve(m, tool_call_id=None) for m in write.messages))
    return write


def _without_a_note(decision: StepDecision) -> StepDecision:
    notes = sum(isinstance(w, AppendUserMessage) for w in decision.commit.writes)

    def bend(write: Write) -> Write | None:
        if isinstance(write, SetState) and isinstance(write.state, WaitingForUserMessage):
            count = write.state.message_count - notes
            return SetState(evolve(write.state, message_count=count))
        return None if isinstance(write, AppendUserMessage) else write

    return writing(bend)(decision)


def _told_at_once(decision: StepDecision) -> StepDecision:
    told = TurnEvent(TurnId.of(1), TurnCompletedEvent(1))
    return evolve(decision, commit=evolve(decision.commit, events=(*decision.commit.events, told)))


def _counted_twice(write: Write) -> Write:
    return SetUsage(write.usage + write.usage) if isinstance(write, SetUsage) else write


def _in_other_words(write: Write) -> Write:
    return evolve(write, text="other words") if isinstance(write, AppendUserMessage) else write


_SINGLE: Final = table.SPEC_OF[CallSingleAttemptTool].limits
_RESULT: Final = "each call has one result"
_ANSWER: Final = "accepted answers are applied"
_QUESTIONS: Final = "questions mirror the calls that wait"

FAULTS: Final = (
    # --- results and resuming
    PlantedFault(
        "a result is published twice",
        decisions(CallTool, ToolReturned, publishing(lambda told: told * 2)),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "a result is not published",
        decisions(CallTool, ToolReturned, publishing(lambda told: ())),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "a result is not recorded",
        decisions(CallTool, ToolReturned, writing(without(PutToolCall))),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "the turn resumes one result early",
        both(
            waits(ResumeTurn, _one_result_less),
            row(ResumeTurn, ToolResultsArrived, _goes_on_whatever_is_open),
        ),
        "three-effects",
        "model is called after all results",
    ),
    PlantedFault(
        "a rejection does not end its call",
        decisions(AwaitToolApproval, InterruptAnswered, writing(without(PutToolCall))),
        "two-questions",
        _RESULT,
    ),
    # --- approvals
    PlantedFault(
        "an answered question expires",
        row(AwaitToolApproval, DeadlineReached, _expires_without_a_look),
        "deadline",
        _ANSWER,
    ),
    PlantedFault(
        "AwaitToolApproval.execute takes no lock",
        spec(AwaitToolApproval, execute_locks=()),
        "deadline",
        _ANSWER,
    ),
    PlantedFault(
        "AwaitToolApproval.wait_for takes no lock",
        spec(AwaitToolApproval, wait_locks=()),
        "two-questions",
        _QUESTIONS,
    ),
    PlantedFault(
        "resolve_interrupt takes no lock",
        rpc(ResolveInterrupt, locks=()),
        "two-questions",
        _QUESTIONS,
    ),
    PlantedFault(
        "resolve_interrupt keeps the question",
        replies(ResolveInterrupt, _keeping_the_question),
        "three-tools",
        _QUESTIONS,
    ),
    PlantedFault(
        "a late answer is accepted",
        rpc(ResolveInterrupt, rule=_as_if_in_time),
        "deadline",
        "late answers are refused",
    ),
    PlantedFault(
        "an expired question stays in the list",
        decisions(AwaitToolApproval, DeadlineReached, writing(without(SetInterrupts))),
        "two-questions",
        _QUESTIONS,
    ),
    PlantedFault(
        "a question is not put in the list",
        decisions(RunModel, ToolCallsRequested, writing(without(SetInterrupts))),
        "three-tools",
        _QUESTIONS,
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
        "two-questions",
        "a resting session waits for people",
    ),
    # --- effects
    PlantedFault(
        "a single-attempt tool is tried again",
        spec(CallSingleAttemptTool, limits=evolve(_SINGLE, attempts=2)),
        "three-effects",
        "single attempt tools start once",
    ),
    PlantedFault(
        "a write that was cut off is called failed",
        row(RecordToolOutcomeUnknown, AttemptsExhausted, _calls_it_failed),
        "three-effects",
        "a write that started is not called failed",
    ),
    # --- turns and messages
    PlantedFault(
        "a second turn begins beside the first",
        decisions(AwaitUserMessage, UserSpoke, going(lambda steps: (*steps, AwaitUserMessage()))),
        "two-messages",
        "one control branch is live",
    ),
    PlantedFault(
        "the session waits for nobody after a turn",
        decisions(RunModel, TurnCompleted, going(lambda steps: ())),
        "two-messages",
        "one control branch is live",
    ),
    PlantedFault(
        "a repeated message is taken twice",
        replies(SendUserMessage, _forgetting_the_request),
        "two-messages",
        "user messages are taken once in order",
    ),
    PlantedFault(
        "send_user_message takes no lock",
        rpc(SendUserMessage, locks=()),
        "two-messages",
        "user messages are taken once in order",
    ),
    PlantedFault(
        "a turn begins with other words",
        decisions(AwaitUserMessage, UserSpoke, writing(_in_other_words)),
        "two-messages",
        "user messages are taken once in order",
    ),
    PlantedFault(
        "a turn's records outlive it",
        decisions(RunModel, TurnCompleted, writing(without(ClearTurn))),
        "two-messages",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "sequences have a gap",
        decisions(RunModel, TurnCompleted, writing(_one_sequence_further)),
        "two-messages",
        "messages have no gap",
    ),
    PlantedFault(
        "a turn's messages are not stored",
        decisions(RunModel, TurnCompleted, writing(without(AppendMessages))),
        "two-messages",
        "messages have no gap",
    ),
    PlantedFault(
        "a completed turn loses its results",
        decisions(RunModel, TurnCompleted, writing(_without_call_ids)),
        "two-messages",
        "a completed turn stores its calls",
    ),
    PlantedFault(
        "a failed turn leaves no note",
        decisions(RecordTurnFailure, AttemptsExhausted, _without_a_note),
        "model-fails",
        "a failed turn tells what ran",
    ),
    PlantedFault(
        "the model's failure ends the session",
        decisions(RecordTurnFailure, AttemptsExhausted, going(lambda steps: ())),
        "model-fails",
        "one control branch is live",
    ),
    PlantedFault(
        "usage is counted twice",
        decisions(RunModel, ToolCallsRequested, writing(_counted_twice)),
        "model-fails",
        "usage is the sum of committed calls",
    ),
    PlantedFault(
        "a turn's end is told before it is durable",
        decisions(RunModel, TurnCompleted, _told_at_once),
        "two-messages",
        "the end of a turn is told when durable",
    ),
    PlantedFault(
        "the state does not follow the turn",
        decisions(RunModel, ToolCallsRequested, writing(without(SetState))),
        "two-messages",
        "no rule is surprised",
    ),
)
