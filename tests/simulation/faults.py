"""The faults that the simulator must find: one promise each, dropped or bent, and where it shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, cast

import pytest
from attrs import evolve, frozen

from dex_agents_model import table
from dex_agents_model.calls import Failed, Rejected, Runnable
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClaimCall,
    ClearTurn,
    Commit,
    DrainChannels,
    EndBranch,
    InterruptResolved,
    PutToolCall,
    RecordApproval,
    RpcDecision,
    SetCancelledTurn,
    SetInterrupts,
    SetState,
    SetSummary,
    SetTakenRequestIds,
    SetUsage,
    StepDecision,
    TakeSteering,
    ToolCallFinished,
    WaitDecision,
    WithdrawQueued,
    Write,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    CallModel,
    DeadlineReached,
    Entered,
    ExecuteTool,
    HistorySummarized,
    InterruptAnswered,
    ToolCallsRequested,
    ToolRaised,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    UnfinishedTurnBuilt,
    UserSpoke,
)
from dex_agents_model.errors import ClaimRefused
from dex_agents_model.events import TurnCompletedEvent, TurnEvent
from dex_agents_model.ids import InterruptId, TurnId
from dex_agents_model.performing import perform
from dex_agents_model.records import (
    AgentInterruptResolution,
    AgentUserMessage,
    MessageRole,
    WaitingForUserMessage,
)
from dex_agents_model.requests import (
    CancelTurn,
    ClaimToolCall,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from dex_agents_model.rules import tools
from dex_agents_model.simulation import evaluation, port, world
from dex_agents_model.simulation.channels import Condition, condition_of
from dex_agents_model.spec import Lock, Spec
from dex_agents_model.steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    CompactHistory,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnCancelled,
    RecordTurnFailure,
    ResumeTurn,
    RunModel,
    Step,
)
from dex_agents_model.waits import ForInterruptResolution, ForToolResults, Wait

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


def _as_the_first(write: Write) -> Write:
    return evolve(write, number=0) if isinstance(write, RecordApproval) else write


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


def _as_if_too_late(request: object, view: object, now: datetime) -> object:
    return _RESOLVE(request, view, now + timedelta(minutes=2))


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


def _unsaid_whether_fenced(write: Write) -> Write:
    if isinstance(write, PutToolCall) and isinstance(write.record, Runnable):
        return PutToolCall(Runnable(evolve(write.record.call, fenced=None)))
    return write


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


def _without_user_messages(decision: StepDecision) -> StepDecision:
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
    if isinstance(write, AppendUserMessage):
        return evolve(write, message=AgentUserMessage("other words"))
    return write


def _without_the_edit(
    rule: Rule, step: Step, view: Any, on: InterruptAnswered, now: datetime
) -> Any:
    return rule(step, view, InterruptAnswered(evolve(on.resolution, edited_arguments=None)), now)


def _over_the_first_one(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    return AppendMessages((*write.messages, evolve(write.messages[-1], sequence=1)))


def _of_another_call(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    return AppendMessages(
        tuple(
            evolve(m, tool_call_id="another") if m.role is MessageRole.TOOL else m
            for m in write.messages
        )
    )


def _running_other_arguments(rule: Rule, *given: object) -> object:
    reaction = rule(*given)
    if not isinstance(reaction, ExecuteTool):
        return reaction
    return ExecuteTool(Runnable(evolve(reaction.record.call, arguments='{"order":8}')))


def _in_reverse(wait: Wait) -> Condition | None:
    condition = condition_of(wait)
    return condition and evolve(condition, any_of=condition.any_of[::-1])


# --- steering, cancelling, claims, compaction ------------------------------------------------


def _keeping_it_in_the_channel(write: Write) -> Write:
    return evolve(write, channel_message_ids=()) if isinstance(write, TakeSteering) else write


def _wiping_every_question(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(decision, writes=(*decision.writes, SetInterrupts(())))


def _dropping(*kinds: type[Any]) -> Callable[[RpcDecision[bool]], RpcDecision[bool]]:
    return lambda decision: evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, kinds))
    )


def _sparing_those_that_record(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    recording = (RecordToolFailure, RecordToolOutcomeUnknown)
    return evolve(decision, cancel=tuple(s for s in decision.cancel if s not in recording))


_CANCEL: Final[Any] = table.RPC_OF[CancelTurn].rule
_CLAIM: Final[Any] = table.RPC_OF[ClaimToolCall].rule
_WAIT_FOR_ANSWER: Final[Any] = table.SPEC_OF[AwaitToolApproval].wait


def _cancelling_a_stale_state(request: object, view: Any, now: datetime) -> RpcDecision[bool]:
    decision: RpcDecision[bool] = _CANCEL(request, view, now)
    if view.state is None or not decision.cancel:
        return decision
    return evolve(decision, writes=(*decision.writes, SetState(view.state)))


def _granting_anyone(request: ClaimToolCall, view: Any, now: datetime) -> RpcDecision[bool]:
    return RpcDecision(writes=(ClaimCall(request.call, request.claimant),), reply=True)


def _granting_whatever_ended(request: object, view: Any, now: datetime) -> RpcDecision[bool]:
    return cast("RpcDecision[bool]", _CLAIM(request, evolve(view, cancelled_turn=None), now))


def _steered_without_a_look(step: AwaitToolApproval, view: Any, now: datetime) -> WaitDecision:
    """A pending steering message rejects the call, though its question was answered before."""
    asked = view.record and InterruptId.of(step.turn, step.call)
    if not view.pending_steering or any(i.interrupt_id == asked for i in view.interrupts):
        return cast("WaitDecision", _WAIT_FOR_ANSWER(step, view, now))
    no = AgentInterruptResolution(asked, False, now, "superseded", superseded=True)
    return WaitDecision(
        commit=Commit(publishes=(InterruptResolved(no),)), wait=ForInterruptResolution(asked)
    )


def _steered_and_still_asked(decision: WaitDecision) -> WaitDecision:
    return evolve(decision, commit=evolve(decision.commit, writes=()))


def _deaf_to_steering(step: AwaitToolApproval, view: Any, now: datetime) -> WaitDecision:
    return cast("WaitDecision", _WAIT_FOR_ANSWER(step, evolve(view, pending_steering=()), now))


def _over_whatever_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spec, "is_over", lambda spec, step, view: False)


def _a_refused_claim_ends_the_branch(patch: pytest.MonkeyPatch) -> None:
    async def forgiving(*given: Any) -> object:
        try:
            return await perform(*given)
        except ClaimRefused:
            return ToolRaised("")

    patch.setattr(port, "perform", forgiving)
    row(CallSingleAttemptTool, ToolRaised, lambda *given: StepDecision(next=EndBranch()))(patch)


def _telling_less(rule: Rule, *given: object) -> object:
    reaction = rule(*given)
    if not isinstance(reaction, CallModel):
        return reaction
    return evolve(reaction, messages=reaction.messages[1:])


def _cutting_a_turn(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        evolve(s, through_sequence=s.through_sequence - 1) if isinstance(s, CompactHistory) else s
        for s in steps
    )


_SINGLE: Final = table.SPEC_OF[CallSingleAttemptTool].limits
_RESULT: Final = "each call has one result"
_ANSWER: Final = "accepted answers are applied"
_MESSAGES: Final = "user messages are taken once in order"
_RESTING: Final = "a resting session waits for people"
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
        "deadline+0",
        _ANSWER,
    ),
    PlantedFault(
        "AwaitToolApproval.execute takes no lock",
        spec(AwaitToolApproval, execute_locks=()),
        "deadline+0",
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
        "cancel",
        _RESTING,
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
        _MESSAGES,
    ),
    PlantedFault(
        "send_user_message takes no lock",
        rpc(SendUserMessage, locks=()),
        "two-messages",
        _MESSAGES,
    ),
    PlantedFault(
        "a turn begins with other words",
        decisions(AwaitUserMessage, UserSpoke, writing(_in_other_words)),
        "two-messages",
        _MESSAGES,
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
        decisions(RecordTurnFailure, UnfinishedTurnBuilt, _without_user_messages),
        "model-fails",
        "a turn without answer tells what ran",
    ),
    PlantedFault(
        "the model's failure ends the session",
        decisions(RecordTurnFailure, UnfinishedTurnBuilt, going(lambda steps: ())),
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
        "a withdrawn message stays",
        replies(WithdrawUserMessage, _dropping(WithdrawQueued)),
        "withdraw",
        _MESSAGES,
    ),
    PlantedFault(
        "a repeated withdrawal is told that it came too late",
        replies(WithdrawUserMessage, _forgetting_the_request),
        "withdraw",
        _MESSAGES,
    ),
    PlantedFault(
        "the first message is written anew",
        decisions(RunModel, TurnCompleted, writing(_over_the_first_one)),
        "two-messages",
        "stored messages never change",
    ),
    PlantedFault(
        "a result names another call",
        decisions(RunModel, TurnCompleted, writing(_of_another_call)),
        "two-messages",
        "each stored call has its result",
    ),
    PlantedFault(
        "a tool runs with other arguments than its record's",
        row(CallTool, Entered, _running_other_arguments),
        "two-messages",
        "tools start only when allowed",
    ),
    # --- claims
    PlantedFault(
        "a claim is not written",
        replies(ClaimToolCall, _dropping(ClaimCall)),
        "stale-claim",
        "single attempt tools start once",
    ),
    PlantedFault(
        "every claim is granted",
        rpc(ClaimToolCall, rule=_granting_anyone),
        "stale-claim",
        "single attempt tools start once",
    ),
    PlantedFault(
        "a claim is granted after the cancel",
        rpc(ClaimToolCall, rule=_granting_whatever_ended),
        "stale-claim",
        "nothing of a cancelled turn starts",
    ),
    PlantedFault(
        "claim_tool_call takes no lock",
        rpc(ClaimToolCall, locks=()),
        "stale-claim",
        "nothing of a cancelled turn starts",
    ),
    PlantedFault(
        "each Worker asks its own options whether a call was fenced",
        both(
            decisions(RunModel, ToolCallsRequested, writing(_unsaid_whether_fenced)),
            lambda patch: patch.setattr(
                tools, "may_have_started", lambda record, *, claimed: claimed
            ),
        ),
        "rolling-deploy",
        "a write that started is not called failed",
    ),
    PlantedFault(
        "RecordToolOutcomeUnknown takes no lock",
        spec(RecordToolOutcomeUnknown, execute_locks=()),
        "stale-claim",
        "a write that started is not called failed",
    ),
    PlantedFault(
        "a refused claim ends its branch",
        _a_refused_claim_ends_the_branch,
        "stale-claim",
        _RESTING,
    ),
    # --- steering
    PlantedFault(
        "steering stays in its Channel",
        decisions(ResumeTurn, ToolResultsArrived, writing(_keeping_it_in_the_channel)),
        "cancel-keeping-items",
        _MESSAGES,
    ),
    PlantedFault(
        "a cancelled turn forgets what steered it",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, _without_user_messages),
        "cancel-keeping-items",
        "steering enters history once",
    ),
    PlantedFault(
        "steering rejects a call that was answered",
        spec(AwaitToolApproval, wait=_steered_without_a_look),
        "steer",
        _ANSWER,
    ),
    PlantedFault(
        "steering rejects a call and leaves its question",
        waits(AwaitToolApproval, _steered_and_still_asked),
        "steer",
        _QUESTIONS,
    ),
    PlantedFault(
        "a question raised after the steering waits",
        spec(AwaitToolApproval, wait=_deaf_to_steering),
        "steer",
        _RESTING,
    ),
    PlantedFault(
        "steer_user_message wipes questions that it did not see",
        replies(SteerUserMessage, _wiping_every_question),
        "steer",
        _QUESTIONS,
    ),
    PlantedFault(
        "the queue goes ahead of steering",
        lambda patch: patch.setattr(evaluation, "condition_of", _in_reverse),
        "steer-and-queue",
        "steering goes ahead of the queue",
    ),
    # --- cancelling
    PlantedFault(
        "cancel_turn locks no questions",
        rpc(CancelTurn, locks=(Lock.STATE,)),
        "cancel",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "cancel_turn locks no state",
        rpc(CancelTurn, locks=(Lock.INTERRUPTS,)),
        "cancel-and-queue",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn does not mark the turn",
        replies(CancelTurn, _dropping(SetCancelledTurn)),
        "cancel",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn writes the state that it read",
        rpc(CancelTurn, rule=_cancelling_a_stale_state),
        "cancel",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn leaves the questions",
        replies(CancelTurn, _dropping(SetInterrupts)),
        "cancel",
        _QUESTIONS,
    ),
    PlantedFault(
        "cancel_turn spares those that record results",
        replies(CancelTurn, _sparing_those_that_record),
        "stale-claim",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "a cancelled turn leaves its results",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, writing(without(DrainChannels))),
        "cancel",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "a cancelled turn leaves no note",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, _without_user_messages),
        "stale-claim",
        "a turn without answer tells what ran",
    ),
    PlantedFault(
        "AwaitUserMessage takes no lock",
        spec(AwaitUserMessage, execute_locks=()),
        "cancel-and-queue",
        "one control branch is live",
    ),
    PlantedFault(
        "the Steps of a turn that is over go on",
        _over_whatever_is_cancelled,
        "cancel",
        "no rule is surprised",
    ),
    PlantedFault(
        "a Step holds its lock while it waits",
        lambda patch: patch.setattr(world, "_RUNNING", world._RUNNING | {world.Phase.WAITING}),
        "stale-claim",
        _RESTING,
    ),
    # --- compaction
    PlantedFault(
        "the model is not told the oldest message",
        row(RunModel, Entered, _telling_less),
        "compaction",
        "the model is told everything once",
    ),
    PlantedFault(
        "a summary cuts a turn in two",
        decisions(RunModel, Entered, going(_cutting_a_turn)),
        "compaction",
        "a summary ends between turns",
    ),
    PlantedFault(
        "a summary is not stored",
        decisions(CompactHistory, HistorySummarized, writing(without(SetSummary))),
        "compaction",
        "the model is told everything once",
    ),
)
