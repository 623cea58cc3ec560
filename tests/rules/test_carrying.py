"""What a session knows of its history and its turn outlives every change of its status."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve

from dex_agents_model.calls import Runnable, ToolEffect
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    DrainChannels,
    GoTo,
    PutToolCall,
    SetRunState,
    SetState,
    SetSummary,
    SetUsage,
    StepDecision,
    Write,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    DeferredToolCall,
    Entered,
    HistorySummarized,
    ToolCallsRequested,
    ToolResultsArrived,
    TurnCompleted,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.events import (
    EventPayload,
    HistoryCompacted,
    HistoryCompactionFailed,
    ToolCallDeferred,
    TurnEvent,
    TurnStarted,
    UsageRecorded,
)
from dex_agents_model.ids import ToolCallId
from dex_agents_model.policy import AgentSessionOptions, CompactionPolicy, ToolPolicy
from dex_agents_model.records import (
    AgentMessage,
    AgentUserMessage,
    FrameworkMessage,
    HistoryRange,
    HistorySummary,
    MessageRole,
    RunningModel,
    RunningTools,
    SteeringMessage,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.steps import (
    AwaitUserMessage,
    CallTool,
    CompactHistory,
    RecordCompactionFailure,
    RecordTurnCancelled,
    RecordTurnFailure,
    ResumeTurn,
    RunModel,
    Step,
)
from dex_agents_model.views import (
    CompactionView,
    ResumeView,
    SessionView,
    TurnView,
    UnfinishedTurnView,
)

from .cases import Case, Reacts, claim_of
from .samples import NEXT_TURN, SUM, TURN, USED, call, ended_calls, view

# Messages 1 to 4 are deleted, and a summary stands for those up to 6.
HISTORY: Final = HistoryRange(first_sequence=5, summarised_through=6)
READ: Final = call("a", ToolEffect.READ, model_call=2)
CALLING: Final = RunningModel(2, 9, 1, 3, HISTORY, may_compact=False, run_state_tokens=6)
CALLS: Final = (ToolCallId("a"),)
USING_TOOLS: Final = RunningTools(2, 9, 2, 3, HISTORY, False, 7, CALLS)
RESUMED: Final = RunningModel(2, 9, 2, 3, HISTORY, False, 7, CALLS)
SPOKE: Final = AgentUserMessage("hello", "message-9")
DRAWN: Final = FrameworkMessage(MessageRole.ASSISTANT, "<image>", estimated_tokens=5)
ROOMY: Final = AgentSessionOptions(compaction=CompactionPolicy(context_window_tokens=9000))


def then(*writes: Write, told: tuple[EventPayload, ...] = (), to: tuple[Step, ...]) -> StepDecision:
    turn = NEXT_TURN if to == (RunModel(NEXT_TURN),) else TURN
    events = tuple(TurnEvent(turn, payload) for payload in told)
    return StepDecision(commit=Commit(writes=writes, events=events), next=GoTo(to))


BEGUN: Final = then(
    SetState(RunningModel(3, 10, 0, 0, HISTORY)),
    AppendUserMessage(10, NEXT_TURN, SPOKE),
    told=(TurnStarted(10, "message-9"),),
    to=(RunModel(NEXT_TURN),),
)
IDLE: Final = view(SessionView, state=WaitingForUserMessage(2, 9, TurnCancelled(), HISTORY))
CASES: tuple[Case, ...] = (
    Reacts("begin_turn__carries_the_history", AwaitUserMessage(), IDLE, UserSpoke(SPOKE), BEGUN),
    Reacts(
        "begin_turn_with_steering__carries_the_history",
        AwaitUserMessage(),
        IDLE,
        UserSteered(SteeringMessage(SPOKE)),
        BEGUN,
    ),
    Reacts(
        "fan_out_tool_calls__carries_all_that_the_turn_knows",
        RunModel(TURN),
        view(TurnView, state=CALLING),
        ToolCallsRequested(
            "state",
            (DeferredToolCall("a", "tool_a", "{}", ToolPolicy(ToolEffect.READ), "noted"),),
            USED,
            run_state_tokens=7,
        ),
        then(
            SetState(USING_TOOLS),
            SetUsage(SUM),
            SetRunState("state"),
            PutToolCall(Runnable(evolve(READ, framework_memo="noted"))),
            told=(
                UsageRecorded(USED, SUM),
                ToolCallDeferred(READ.tool_call_id, "tool_a", ToolEffect.READ, False),
            ),
            to=(CallTool(TURN, READ.tool_call_id), ResumeTurn(TURN, 1)),
        ),
    ),
    Reacts(
        "resume_turn__carries_all_that_the_turn_knows",
        ResumeTurn(TURN, 2),
        view(ResumeView, state=USING_TOOLS, tool_calls=ended_calls()),
        ToolResultsArrived(),
        then(SetState(RESUMED), to=(RunModel(TURN),)),
    ),
    Reacts(
        "store_summary__carries_all_else_that_the_turn_knows",
        CompactHistory(TURN, 8),
        view(CompactionView, state=CALLING, messages=(), options=ROOMY),
        HistorySummarized("short", USED),
        then(
            SetState(evolve(CALLING, history=HistoryRange(5, 8))),
            SetUsage(SUM),
            SetSummary(HistorySummary(8, "short", USED)),
            told=(UsageRecorded(USED, SUM), HistoryCompacted(8)),
            to=(RunModel(TURN),),
        ),
    ),
    Reacts(
        "go_on_uncompacted__carries_all_else_that_the_turn_knows",
        RecordCompactionFailure(TURN),
        view(SessionView, state=evolve(CALLING, may_compact=True)),
        AttemptsExhausted("lost"),
        then(SetState(CALLING), told=(HistoryCompactionFailed("lost"),), to=(RunModel(TURN),)),
    ),
    Reacts(
        "complete_turn__carries_the_history",
        RunModel(TURN),
        view(TurnView, state=CALLING),
        TurnCompleted((), USED),
        then(
            SetState(WaitingForUserMessage(2, 9, TurnSucceeded(0), HISTORY)),
            SetUsage(SUM),
            AppendMessages(()),
            ClearTurn(),
            told=(UsageRecorded(USED, SUM),),
            to=(AwaitUserMessage(),),
        ),
    ),
    Reacts(
        "complete_turn__carries_what_a_message_is_estimated_to_take",
        RunModel(TURN),
        view(TurnView, state=CALLING),
        TurnCompleted((DRAWN,), USED),
        then(
            SetState(WaitingForUserMessage(2, 10, TurnSucceeded(1), HISTORY)),
            SetUsage(SUM),
            AppendMessages(
                (AgentMessage(10, TURN, MessageRole.ASSISTANT, "<image>", estimated_tokens=5),)
            ),
            ClearTurn(),
            told=(UsageRecorded(USED, SUM),),
            to=(AwaitUserMessage(),),
        ),
    ),
    Reacts(
        "record_lost_turn__carries_the_history",
        RecordTurnFailure(TURN),
        view(UnfinishedTurnView, state=CALLING),
        AttemptsExhausted("lost"),
        then(
            SetState(WaitingForUserMessage(2, 9, TurnFailed("lost"), HISTORY)),
            ClearTurn(),
            to=(AwaitUserMessage(),),
        ),
    ),
    Reacts(
        "record_turn_cancelled__carries_the_history",
        RecordTurnCancelled(TURN),
        view(UnfinishedTurnView, state=USING_TOOLS),
        Entered(),
        then(
            SetState(WaitingForUserMessage(2, 9, TurnCancelled(), HISTORY)),
            DrainChannels(()),
            ClearTurn(),
            to=(AwaitUserMessage(),),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_carrying(case: Case) -> None:
    assert case.result() == case.then
