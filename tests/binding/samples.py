"""Records to stage, one at least of each kind. No claim about them may live here."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import evolve

from dex_agents_model import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentToolCall,
    AgentUsage,
    AgentUserMessage,
    InterruptId,
    MessageRole,
    ToolCallId,
    ToolEffect,
    TurnId,
)
from dex_agents_model.calls import (
    AwaitingApproval,
    Cancelled,
    Failed,
    OutcomeUnknown,
    Rejected,
    RequestedToolCall,
    Runnable,
    Succeeded,
)
from dex_agents_model.decision import (
    InterruptResolved,
    ToolCallFinished,
    UserMessageQueued,
)
from dex_agents_model.records import (
    ApprovalDecision,
    ApprovalRecord,
    HistoryRange,
    HistorySummary,
    RunningModel,
    RunningTools,
    SteeringMessage,
    TakenSteering,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)

TURN = TurnId("turn-1")
CALL = ToolCallId("a call")
OTHER_CALL = ToolCallId("\N{SNOWMAN} % .")
LONG = "é" * 300_000
"""Longer than a part."""


def requested(
    call: ToolCallId = CALL, *, order: int = 0, arguments: str = "{}"
) -> RequestedToolCall:
    return RequestedToolCall(TURN, call, "pay", arguments, ToolEffect.READ, False, order)


def message(sequence: int, text: str) -> AgentMessage:
    return AgentMessage(sequence, TURN, MessageRole.TOOL, f"item {text}", text, "c", "pay")


QUESTIONS = (
    AgentInterrupt(InterruptId("turn-1.a"), TURN, ToolCallId("a"), "pay", "{}", "sha256:0"),
    AgentInterrupt(
        InterruptId("turn-1.b"),
        *(TURN, ToolCallId("b"), "pay", "{}", "sha256:1"),
        deadline=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    ),
)
USAGE = AgentUsage(1, 2, 3, 4, 5, 6)
STATES: tuple[AgentState, ...] = (
    WaitingForUserMessage(),
    WaitingForUserMessage(1, 2, TurnSucceeded(1)),
    WaitingForUserMessage(1, 2, TurnFailed("it broke")),
    WaitingForUserMessage(1, 2, TurnCancelled()),
    RunningModel(1, 1, 0),
    RunningTools(3, 9, 2),
)
RECORDS: tuple[AgentToolCall, ...] = (
    AwaitingApproval(requested()),
    Runnable(requested()),
    Succeeded(requested(), "out", output_truncated=True),
    Rejected(requested(), "no", expired=True),
    Failed(requested(), "it said no"),
    Cancelled(requested()),
    OutcomeUnknown(requested(), "it was cut off"),
)
OPEN, DONE = Runnable(requested(arguments=LONG)), Succeeded(requested(arguments=LONG), LONG)
EDITED = Runnable(requested(arguments="{}"))
FENCED = Runnable(evolve(requested(OTHER_CALL, order=1), effect=ToolEffect.NON_IDEMPOTENT_WRITE))
SECOND = Succeeded(requested(OTHER_CALL, order=1), "out")
TEXTS = (message(1, "short"), message(2, LONG))
SUMMARY, NEWER = HistorySummary(1, "so far", USAGE), HistorySummary(10, "since then", USAGE)
SUMMARISED = WaitingForUserMessage(
    1, 2, TurnSucceeded(1), history=HistoryRange(summarised_through=1)
)
ONE_SUMMARY = {"HistorySummary": 1}
HELLO = AgentUserMessage("hello", "its id")
SAID = AgentMessage(1, TURN, MessageRole.USER, '{"user": "hello"}', "hello", message_id="its id")
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
ASKED = InterruptId.of(TURN, CALL)
OTHER = InterruptId.of(TURN, OTHER_CALL)
YES = AgentInterruptResolution(ASKED, approved=True, resolved_at=NOW, edited_arguments="{}")
NO = AgentInterruptResolution(OTHER, approved=False, resolved_at=NOW, rejection_message="no")
ANSWERED = (InterruptResolved(NO), InterruptResolved(YES))
RESULTS = tuple(ToolCallFinished(Failed(requested(ToolCallId(name)), "no")) for name in "abc")
SPOKEN = tuple(AgentUserMessage(text, f"id of {text}") for text in ("first", "second"))
QUEUED = tuple(map(UserMessageQueued, SPOKEN))
STEERED = tuple(SteeringMessage(each, rejects_pending_approvals=False) for each in SPOKEN)
TAKEN = tuple(TakenSteering(2, each) for each in SPOKEN)
DECIDED = tuple(
    ApprovalRecord(
        InterruptId.of(TurnId(turn), CALL),
        *(TurnId(turn), CALL, "pay", "sha256:0", ApprovalDecision.APPROVED, NOW, "somebody"),
    )
    for turn in ("turn-2", "turn-10")
)
