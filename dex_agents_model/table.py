"""Every edge of a session, in one literal table: nothing about a Step or an RPC is stated anywhere else.

``react`` and ``answer`` are the only ways in. docs/transitions.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from .decision import (
    EndBranch,
    GoTo,
    Reaction,
    RpcDecision,
    StepDecision,
    WaitDecision,
)
from .effects import (
    AttemptsExhausted,
    BuildUnfinishedTurn,
    CallModel,
    DeadlineReached,
    Entered,
    ExecuteTool,
    HistorySummarized,
    InterruptAnswered,
    Occurrence,
    Summarize,
    ToolCallsRequested,
    ToolRaised,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    TurnGivenUp,
    UnfinishedTurnBuilt,
    UserSpoke,
    UserSteered,
)
from .errors import StateCorrupt
from .policy import LONGEST_TOOL_ATTEMPT
from .requests import (
    CancelTurn,
    ClaimToolCall,
    GetAgentSnapshot,
    ListAgentMessages,
    ListApprovals,
    ListQueuedMessages,
    Reply,
    Request,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from .rules.approval import expire, nothing_to_ask, take_answer, wait_for_answer
from .rules.compaction import go_on_uncompacted, store_summary, summarise
from .rules.failure import (
    finish_cancelled_turn,
    finish_failed_turn,
    give_turn_up,
    record_ended_turn,
    record_lost_turn,
    record_turn_cancelled,
)
from .rules.fan_out import fan_out_tool_calls
from .rules.reading import (
    list_approvals,
    list_messages,
    list_queued_messages,
    show_session,
)
from .rules.rpc import (
    CANCELLED_STEPS,
    cancel_turn,
    claim_tool_call,
    queue_user_message,
    resolve_interrupt,
    steer_user_message,
    withdraw_user_message,
)
from .rules.tools import give_up, record_error, record_output, run_tool
from .rules.turn import (
    begin_turn,
    begin_turn_with_steering,
    call_the_model,
    complete_turn,
    resume_turn,
    start_session,
    wait_for_results,
    wait_for_user_message,
)
from .spec import Limits, Lock, Row, RpcSpec, Spec, on, row_name, rpc, spec
from .steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    CompactHistory,
    RecordCompactionFailure,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnCancelled,
    RecordTurnFailure,
    ResumeTurn,
    RunModel,
    StartAgentSession,
    Step,
)
from .views import (
    AnswerView,
    ApprovalsView,
    ApprovalView,
    CallView,
    CompactionView,
    MessagesView,
    QueueingView,
    QueueView,
    ResumeView,
    RpcView,
    SessionView,
    SnapshotView,
    SteeringView,
    StepView,
    TurnView,
    UnfinishedTurnView,
)
from .waits import NoWait

_HEARTBEAT: Final = timedelta(minutes=2)
_CALL: Final = timedelta(minutes=15)
_EVER: Final = timedelta(days=3650)

MODEL: Final = Limits(
    attempts=3,
    attempt_timeout=_CALL,
    heartbeat_timeout=_HEARTBEAT,
    within=timedelta(minutes=30),
    on_exhausted=RecordTurnFailure,
)
COMPACTION: Final = Limits(
    attempts=3,
    attempt_timeout=_CALL,
    heartbeat_timeout=_HEARTBEAT,
    within=timedelta(minutes=30),
    on_exhausted=RecordCompactionFailure,
)
RETRIED_TOOL: Final = Limits(
    attempts=3,
    attempt_timeout=LONGEST_TOOL_ATTEMPT,
    heartbeat_timeout=_HEARTBEAT,
    within=timedelta(hours=1),
    on_exhausted=RecordToolFailure,
)
SINGLE_ATTEMPT_TOOL: Final = Limits(
    attempts=1,
    attempt_timeout=LONGEST_TOOL_ATTEMPT,
    heartbeat_timeout=_HEARTBEAT,
    within=timedelta(hours=1),
    on_exhausted=RecordToolOutcomeUnknown,
)
BOOKKEEPING: Final = Limits(attempts=None, attempt_timeout=timedelta(minutes=1), within=_EVER)

# fmt: off
SPECS: Final[tuple[Spec[Any, Any], ...]] = (
    spec(StartAgentSession, reads=SessionView, limits=BOOKKEEPING, rows=(
        on(Entered, start_session, RunModel, AwaitUserMessage),
    )),
    spec(AwaitUserMessage, reads=SessionView, limits=BOOKKEEPING,
         wait=wait_for_user_message, execute_locks=(Lock.STATE,), rows=(
        on(UserSpoke,   begin_turn,               RunModel),
        on(UserSteered, begin_turn_with_steering, RunModel),
    )),
    spec(RunModel, reads=TurnView, limits=MODEL, rows=(
        on(Entered,            call_the_model,     CallModel, CompactHistory, RecordTurnFailure),
        on(TurnCompleted,      complete_turn,      AwaitUserMessage),
        on(ToolCallsRequested, fan_out_tool_calls, AwaitToolApproval, CallTool, CallSingleAttemptTool, ResumeTurn,
                                                   RecordTurnFailure),
        on(TurnGivenUp,        give_turn_up,       RecordTurnFailure),
    )),
    spec(CompactHistory, reads=CompactionView, limits=COMPACTION, rows=(
        on(Entered,           summarise,     Summarize),
        on(HistorySummarized, store_summary, RunModel),
    )),
    spec(RecordCompactionFailure, reads=SessionView, limits=BOOKKEEPING, rows=(
        on(AttemptsExhausted, go_on_uncompacted, RunModel),
    )),
    spec(AwaitToolApproval, reads=ApprovalView, limits=BOOKKEEPING,
         wait=wait_for_answer, wait_locks=(Lock.INTERRUPTS,), execute_locks=(Lock.INTERRUPTS,), rows=(
        on(InterruptAnswered, take_answer,    CallTool, CallSingleAttemptTool, EndBranch),
        on(DeadlineReached,   expire,         AwaitToolApproval, EndBranch),
        on(Entered,           nothing_to_ask, EndBranch),
    )),
    spec(CallTool, reads=CallView, limits=RETRIED_TOOL, rows=(
        on(Entered,      run_tool,      ExecuteTool, EndBranch),
        on(ToolReturned, record_output, EndBranch),
        on(ToolRaised,   record_error,  EndBranch),
    )),
    spec(CallSingleAttemptTool, reads=CallView, limits=SINGLE_ATTEMPT_TOOL, rows=(
        on(Entered,      run_tool,      ExecuteTool, EndBranch),
        on(ToolReturned, record_output, EndBranch),
        on(ToolRaised,   record_error,  EndBranch),
    )),
    spec(RecordToolFailure, reads=CallView, limits=BOOKKEEPING, rows=(
        on(AttemptsExhausted, give_up, EndBranch),
    )),
    spec(RecordToolOutcomeUnknown, reads=CallView, limits=BOOKKEEPING,
         execute_locks=(Lock.STATE,), rows=(
        on(AttemptsExhausted, give_up, EndBranch),
    )),
    spec(ResumeTurn, reads=ResumeView, limits=BOOKKEEPING,
         wait=wait_for_results, wait_reads=SessionView, execute_locks=(Lock.STATE,), rows=(
        on(ToolResultsArrived, resume_turn, RunModel, ResumeTurn),
    )),
    spec(RecordTurnFailure, reads=UnfinishedTurnView, limits=BOOKKEEPING,
         execute_locks=(Lock.STATE,), rows=(
        on(AttemptsExhausted,   record_lost_turn,   BuildUnfinishedTurn, AwaitUserMessage),
        on(Entered,             record_ended_turn,  BuildUnfinishedTurn, AwaitUserMessage),
        on(UnfinishedTurnBuilt, finish_failed_turn, AwaitUserMessage),
    )),
    spec(RecordTurnCancelled, reads=UnfinishedTurnView, limits=BOOKKEEPING,
         execute_locks=(Lock.STATE,), outlives_cancel=True, rows=(
        on(Entered,             record_turn_cancelled, BuildUnfinishedTurn, AwaitUserMessage),
        on(UnfinishedTurnBuilt, finish_cancelled_turn, AwaitUserMessage),
    )),
)

RPCS: Final[tuple[RpcSpec[Any, Any], ...]] = (
    rpc(SendUserMessage,     reads=QueueingView,   rule=queue_user_message,
        locks=(Lock.REQUEST_IDS,), transactional=True),
    rpc(SteerUserMessage,    reads=SteeringView,   rule=steer_user_message,
        locks=(Lock.INTERRUPTS, Lock.REQUEST_IDS), transactional=True),
    rpc(WithdrawUserMessage, reads=QueueingView,   rule=withdraw_user_message,
        locks=(Lock.REQUEST_IDS,), transactional=True),
    rpc(ListQueuedMessages,  reads=QueueView,      rule=list_queued_messages),
    rpc(ResolveInterrupt,    reads=AnswerView,     rule=resolve_interrupt,
        locks=(Lock.INTERRUPTS, Lock.REQUEST_IDS), transactional=True),
    rpc(CancelTurn,          reads=SessionView,    rule=cancel_turn,
        locks=(Lock.STATE, Lock.INTERRUPTS), transactional=True, cancels=CANCELLED_STEPS, to=(RecordTurnCancelled,)),
    rpc(ClaimToolCall,       reads=CallView,       rule=claim_tool_call, locks=(Lock.STATE,), transactional=True),
    rpc(GetAgentSnapshot,    reads=SnapshotView,   rule=show_session),
    rpc(ListAgentMessages,   reads=MessagesView,   rule=list_messages),
    rpc(ListApprovals,       reads=ApprovalsView,  rule=list_approvals),
)
# fmt: on

SPEC_OF: Final[Mapping[type[Step], Spec[Any, Any]]] = MappingProxyType(
    {entry.step: entry for entry in SPECS}
)
RPC_OF: Final[Mapping[type[Request], RpcSpec[Any, Any]]] = MappingProxyType(
    {entry.request: entry for entry in RPCS}
)
_ROWS: Final[Mapping[tuple[type[Any], type[Any]], Row[Any, Any]]] = MappingProxyType(
    {(entry.step, row.on): row for entry in SPECS for row in entry.rows}
)


def await_conditions(step: Step, view: StepView, now: datetime) -> WaitDecision:
    """What ``step`` waits for before it executes, and what it commits as it begins to wait."""
    entry = SPEC_OF[type(step)]
    if entry.wait is None or entry.is_over(step, view):
        return WaitDecision(wait=NoWait())
    return entry.wait(step, view, now)


def react(step: Step, view: StepView, on: Occurrence, now: datetime) -> Reaction:
    """What ``step`` does about ``on``: an effect to perform, or the decision to commit.

    Raises:
        ContractBroken: a runner's answer breaks its contract.
        StateCorrupt: the table has no row for this, or the rule leads where its row does not say.
    """
    if SPEC_OF[type(step)].is_over(step, view):
        return StepDecision(next=EndBranch())
    row = _ROWS.get((type(step), type(on)))
    if row is None:
        raise StateCorrupt(f"the table has no row {row_name(type(step), type(on))}")
    reaction = row.rule(step, view, on, now)
    if not row.to.issuperset(_targets(reaction)):
        names = sorted(stray.__name__ for stray in set(_targets(reaction)) - row.to)
        cited = row_name(type(step), type(on))
        raise StateCorrupt(f"{row.rule.__name__} leads to {names}, which {cited} does not name")
    return reaction


def answer(request: Request, view: RpcView, now: datetime) -> RpcDecision[Reply]:
    """What a session answers to ``request``, and what it commits with the answer.

    Raises:
        StateCorrupt: the rule starts or ends Steps that the table does not name.
    """
    entry = RPC_OF[type(request)]
    decision: RpcDecision[Reply] = entry.rule(request, view, now)
    started = {type(step) for step in decision.next.steps} if decision.next else set()
    if not started <= set(entry.to) or not set(decision.cancel) <= set(entry.cancels):
        raise StateCorrupt(
            f"{entry.rule.__name__} starts or ends Steps that its line does not name"
        )
    return decision


def _targets(reaction: Reaction) -> Iterable[type[Any]]:
    if not isinstance(reaction, StepDecision):
        return (type(reaction),)
    if isinstance(reaction.next, GoTo):
        return map(type, reaction.next.steps)
    return (type(reaction.next),)
