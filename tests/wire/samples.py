"""One sample at least of everything that is stored, sent or asked; each has a golden file of its name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Final, get_args

from attrs import evolve, frozen

from dex_agents_model import calls, events, records, requests, steps
from dex_agents_model.calls import RequestedToolCall, ToolCallCompleted, ToolCallStatus, ToolEffect
from dex_agents_model.events import AgentEvent, EventPayload
from dex_agents_model.ids import InterruptId, SessionId, ToolCallId, TurnId
from dex_agents_model.records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    ApprovalDecision,
    ApprovalRecord,
    HistoryRange,
    HistorySummary,
    MessageRole,
    RunningModel,
    RunningTools,
    SteeringMessage,
    TakenSteering,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.requests import (
    AgentMessagesPage,
    AgentSnapshot,
    ApprovalsPage,
    QueuedMessagesPage,
)
from dex_agents_model.wire import TurnSignal


@frozen
class Sample:
    """A value, the shape as which it is stored, and the name of its golden file."""

    name: str
    shape: Any
    value: object


TURN: Final = TurnId("turn-2")
CALL: Final = ToolCallId("call-1")
ASKED: Final = InterruptId("turn-2.call-1")
NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HELLO: Final = AgentUserMessage("hello \U0001f600", "message-1")
REQUESTED: Final = RequestedToolCall(
    TURN,
    CALL,
    "refund",
    '{"order": 7}',
    ToolEffect.NON_IDEMPOTENT_WRITE,
    requires_approval=True,
    deferral_order=0,
    model_call=2,
    arguments_edited=True,
)
USAGE: Final = AgentUsage(1, 20, 3, 4, 5, 6)
INTERRUPT: Final = AgentInterrupt(ASKED, TURN, CALL, "refund", '{"order": 7}', "sha256:0", NOON)
RESOLUTION: Final = AgentInterruptResolution(
    ASKED, False, NOON, "too much", '{"order": 8}', "Ada", "It is theirs.", superseded=True
)
APPROVAL: Final = ApprovalRecord(
    ASKED,
    TURN,
    CALL,
    "refund",
    "sha256:0",
    ApprovalDecision.APPROVED,
    NOON,
    "Ada",
    "It is theirs.",
    "sha256:1",
)
STEERING: Final = SteeringMessage(HELLO, rejects_pending_approvals=False)
MESSAGE: Final = AgentMessage(
    3, TURN, MessageRole.TOOL, '{"kind":"tool-return"}', "done", "call-1", "refund", "message-1"
)
PAYLOADS: Final = (
    events.TurnStarted(3, "message-1"),
    events.TurnCompletedEvent(4),
    events.TurnFailedEvent("lost"),
    events.TurnCancelledEvent(),
    events.SteeringTaken(2),
    events.TextDelta("Your or"),
    events.ReasoningDelta("Let me see"),
    events.ToolCallDeferred(CALL, "refund", ToolEffect.NON_IDEMPOTENT_WRITE, True),
    events.ToolCallStarted(CALL, "refund"),
    events.ToolCallFinished(CALL, "refund", ToolCallStatus.SUCCEEDED),
    events.InterruptRaised(ASKED, CALL, "refund", NOON),
    events.InterruptResolved(ASKED, False, "too much"),
    events.UsageRecorded(USAGE, USAGE + USAGE),
    events.ModelCallFailedEvent("lost", USAGE),
    events.HistoryCompacted(6),
    events.HistoryCompactionFailed("lost"),
    events.CustomEvent("progress", '{"percent": 40}'),
)


def _states() -> Iterator[Sample]:
    for name, state in (
        ("fresh", WaitingForUserMessage()),
        ("after_an_answer", WaitingForUserMessage(2, 5, TurnSucceeded(2))),
        ("after_a_failure", WaitingForUserMessage(2, 4, TurnFailed("lost"))),
        ("after_a_cancel", WaitingForUserMessage(2, 4, TurnCancelled(), HistoryRange(2, 3))),
        ("running_model", RunningModel(2, 3, 1, 2, HistoryRange(1, 2), may_compact=False)),
        (
            "running_model_later",
            RunningModel(2, 3, 1, tool_call_ids=(CALL,)),
        ),
        (
            "running_tools_later",
            RunningTools(2, 3, 2, tool_call_ids=(CALL, ToolCallId("call-2")), earlier_tool_calls=1),
        ),
        ("running_tools", RunningTools(2, 3, 1, 2, HistoryRange(1, 2), may_compact=False)),
    ):
        yield Sample(f"state_{name}", records.AgentState, state)


def _of_the_framework() -> Iterator[Sample]:
    """Records of what only a framework reads, and about how much of a model's input it takes."""
    spoken = AgentUserMessage("look", "message-1", '[{"kind":"image-url"}]')
    message = AgentMessage(3, TURN, MessageRole.USER, "<image>", estimated_tokens=1600)
    running = RunningTools(2, 3, 1, run_state_tokens=1700)
    calling = RunningModel(2, 3, 1, run_state_tokens=1700)
    returned = calls.Succeeded(REQUESTED, "drawn", framework_content="<image>", content_tokens=1600)
    noted = calls.Runnable(evolve(REQUESTED, framework_memo="noted"))
    fenced = calls.Runnable(evolve(REQUESTED, fenced=True))
    bounded = calls.Runnable(evolve(REQUESTED, timeout_seconds=30))
    yield Sample("tool_call_runnable_with_a_timeout", calls.AgentToolCall, bounded)
    yield Sample("tool_call_runnable_with_a_memo", calls.AgentToolCall, noted)
    yield Sample("tool_call_runnable_behind_a_fence", calls.AgentToolCall, fenced)
    yield Sample("user_message_with_files", AgentUserMessage, spoken)
    yield Sample("message_with_files", AgentMessage, message)
    yield Sample("state_running_tools_with_files", records.AgentState, running)
    yield Sample("state_running_model_with_files", records.AgentState, calling)
    yield Sample("tool_call_succeeded_with_files", calls.AgentToolCall, returned)


def _tool_calls() -> Iterator[Sample]:
    for record in (
        calls.AwaitingApproval(REQUESTED),
        calls.Runnable(REQUESTED),
        calls.Succeeded(REQUESTED, "refunded", output_truncated=True, framework_content="<image>"),
        calls.Rejected(REQUESTED, "too much", expired=True),
        calls.Failed(REQUESTED, "no such order"),
        calls.OutcomeUnknown(REQUESTED, "worker lost"),
        calls.Cancelled(REQUESTED),
    ):
        yield Sample(f"tool_call_{record.status}", calls.AgentToolCall, record)


def _events() -> Iterator[Sample]:
    for payload in PAYLOADS:
        event = AgentEvent(TURN, "step-9", events.StepMethod.EXECUTE, 2, 7, payload)
        yield Sample(f"event_{payload.type}", AgentEvent, event)


def _steps() -> Iterator[Sample]:
    for step in (
        steps.StartAgentSession(HELLO),
        steps.AwaitUserMessage(),
        steps.RunModel(TURN),
        steps.CompactHistory(TURN, 2),
        steps.RecordCompactionFailure(TURN),
        steps.AwaitToolApproval(TURN, CALL),
        steps.CallTool(TURN, CALL),
        steps.CallSingleAttemptTool(TURN, CALL),
        steps.RecordToolFailure(TURN, CALL),
        steps.RecordToolOutcomeUnknown(TURN, CALL),
        steps.ResumeTurn(TURN, 2),
        steps.RecordTurnFailure(TURN, "too many"),
        steps.RecordTurnCancelled(TURN),
    ):
        yield Sample(f"step_{type(step).__name__}", type(step), step)


def _requests() -> Iterator[Sample]:
    for request in (
        requests.SendUserMessage(HELLO),
        requests.SteerUserMessage(STEERING),
        requests.WithdrawUserMessage("message-1"),
        requests.ListQueuedMessages(),
        requests.ResolveInterrupt(
            ASKED,
            True,
            "too much",
            "sha256:0",
            '{"order": 8}',
            "Ada",
            "It is theirs.",
            "request-1",
        ),
        requests.CancelTurn(TURN),
        requests.ClaimToolCall(TURN, CALL, "worker-1"),
        requests.ListApprovals(5),
        requests.GetAgentSnapshot(),
        requests.ListAgentMessages(3, 50),
    ):
        yield Sample(f"request_{type(request).__name__}", type(request), request)


def _replies() -> Iterator[Sample]:
    page = AgentMessagesPage(messages=(MESSAGE,), has_more=True)
    snapshot = AgentSnapshot(
        session_id=SessionId("session-1"),
        observed_at=NOON,
        state=RunningTools(2, 3, 1),
        messages=(MESSAGE,),
        has_earlier_messages=True,
        pending_interrupts=(INTERRUPT,),
        tool_calls=(calls.AwaitingApproval(REQUESTED),),
        usage=USAGE,
        queued_message_count=1,
        event_token="token-1",
    )
    decided = evolve(snapshot, approval_count=2)
    queue = QueuedMessagesPage(messages=(HELLO,), has_more=True)
    approvals = ApprovalsPage(approvals=(APPROVAL,), has_more=True)
    yield Sample("reply_messages_page", AgentMessagesPage, page)
    yield Sample("reply_queued_messages_page", QueuedMessagesPage, queue)
    yield Sample("reply_approvals_page", ApprovalsPage, approvals)
    yield Sample("reply_snapshot", AgentSnapshot, snapshot)
    yield Sample("reply_snapshot_with_decisions", AgentSnapshot, decided)


SAMPLES: Final = (
    *_states(),
    *_tool_calls(),
    *_of_the_framework(),
    *_events(),
    *_steps(),
    *_requests(),
    *_replies(),
    Sample("message", AgentMessage, MESSAGE),
    Sample(
        "message_unbuilt",
        AgentMessage,
        AgentMessage(3, TURN, MessageRole.USER, "<image>", "look", unbuilt="too odd"),
    ),
    Sample("message_with_output", AgentMessage, evolve(MESSAGE, output='{"days":3}')),
    Sample(
        "request_WithdrawUserMessage_named",
        requests.WithdrawUserMessage,
        requests.WithdrawUserMessage("message-1", "request-1"),
    ),
    Sample("usage", AgentUsage, USAGE),
    Sample("user_message", AgentUserMessage, HELLO),
    Sample("interrupts", tuple[AgentInterrupt, ...], (INTERRUPT,)),
    Sample("interrupt_resolution", TurnSignal, RESOLUTION),
    Sample("steering_message", SteeringMessage, STEERING),
    Sample("taken_steering", TakenSteering, TakenSteering(1, HELLO)),
    Sample("summary", HistorySummary, HistorySummary(2, "They greeted.", USAGE)),
    Sample("approval", ApprovalRecord, APPROVAL),
    Sample("tool_call_completed", TurnSignal, ToolCallCompleted(TURN, CALL)),
    Sample("taken_request_ids", tuple[str, ...], ("request-1", "request-2")),
)
SHAPES: Final = tuple(dict.fromkeys(sample.shape for sample in SAMPLES))
UNIONS: Final[tuple[UnionType, ...]] = (
    records.AgentState,
    records.TurnEnd,
    calls.AgentToolCall,
    TurnSignal,
    EventPayload,
    steps.Step,
    requests.Request,
)


def classes_of_unions() -> set[type[Any]]:
    """Every class that has a tag on the wire or a name of its own there."""
    return {member for union in UNIONS for member in get_args(union)}
