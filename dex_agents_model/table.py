"""Every edge of a session, in one literal table: nothing about a Step or an RPC is stated anywhere else.

``react`` and ``answer`` are the only ways in. docs/transitions.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    CallModel,
    DeadlineReached,
    Entered,
    ExecuteTool,
    InterruptAnswered,
    Occurrence,
    ToolCallsRequested,
    ToolRaised,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    UserSpoke,
)
from .errors import StateCorrupt
from .ids import TurnId
from .requests import (
    GetAgentSnapshot,
    ListAgentMessages,
    Reply,
    Request,
    ResolveInterrupt,
    SendUserMessage,
)
from .rules.approval import expire, nothing_to_ask, take_answer, wait_for_answer
from .rules.failure import record_turn_failure
from .rules.rpc import list_messages, queue_user_message, resolve_interrupt, show_session
from .rules.tools import give_up, record_error, record_output, run_tool
from .rules.turn import (
    begin_turn,
    call_the_model,
    complete_turn,
    fan_out_tool_calls,
    resume_turn,
    start_session,
    wait_for_results,
    wait_for_user_message,
)
from .spec import Limits, Lock, Row, RpcSpec, Spec, on, rpc, spec
from .steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnFailure,
    ResumeTurn,
    RunModel,
    StartAgentSession,
    Step,
)
from .views import (
    AnswerView,
    ApprovalView,
    CallView,
    MessagesView,
    QueueView,
    RpcView,
    SessionView,
    SnapshotView,
    StepView,
    TurnRecordsView,
    TurnView,
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
RETRIED_TOOL: Final = Limits(
    attempts=3,
    attempt_timeout=_CALL,
    heartbeat_timeout=_HEARTBEAT,
    within=timedelta(hours=1),
    on_exhausted=RecordToolFailure,
)
SINGLE_ATTEMPT_TOOL: Final = Limits(
    attempts=1,
    attempt_timeout=_CALL,
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
        on(UserSpoke, begin_turn, RunModel),
    )),
    spec(RunModel, reads=TurnView, limits=MODEL, rows=(
        on(Entered,            call_the_model,     CallModel, AwaitUserMessage),
        on(TurnCompleted,      complete_turn,      AwaitUserMessage),
        on(ToolCallsRequested, fan_out_tool_calls, AwaitToolApproval, CallTool, CallSingleAttemptTool, ResumeTurn,
                                                   AwaitUserMessage),
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
    spec(ResumeTurn, reads=TurnRecordsView, limits=BOOKKEEPING,
         wait=wait_for_results, execute_locks=(Lock.STATE,), rows=(
        on(ToolResultsArrived, resume_turn, RunModel, ResumeTurn),
    )),
    spec(RecordTurnFailure, reads=TurnRecordsView, limits=BOOKKEEPING,
         execute_locks=(Lock.STATE,), rows=(
        on(AttemptsExhausted, record_turn_failure, AwaitUserMessage),
    )),
)

RPCS: Final[tuple[RpcSpec[Any, Any], ...]] = (
    rpc(SendUserMessage,   reads=QueueView,    rule=queue_user_message, locks=(Lock.REQUEST_IDS,), transactional=True),
    rpc(ResolveInterrupt,  reads=AnswerView,   rule=resolve_interrupt,
        locks=(Lock.INTERRUPTS, Lock.REQUEST_IDS), transactional=True),
    rpc(GetAgentSnapshot,  reads=SnapshotView, rule=show_session),
    rpc(ListAgentMessages, reads=MessagesView, rule=list_messages),
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
    if entry.wait is None or _is_over(step, view):
        return WaitDecision(wait=NoWait())
    return entry.wait(step, view, now)


def react(step: Step, view: StepView, on: Occurrence, now: datetime) -> Reaction:
    """What ``step`` does about ``on``: an effect to perform, or the decision to commit.

    Raises:
        ContractBroken: a runner's answer breaks its contract.
        StateCorrupt: the table has no row for this, or the rule leads where its row does not say.
    """
    if _is_over(step, view):
        return StepDecision(next=EndBranch())
    row = _ROWS.get((type(step), type(on)))
    if row is None:
        raise StateCorrupt(f"{type(step).__name__} has no rule for {type(on).__name__}")
    reaction = row.rule(step, view, on, now)
    strays = _targets(reaction) - row.to
    if strays:
        names = sorted(stray.__name__ for stray in strays)
        raise StateCorrupt(f"{row.rule.__name__} leads to {names}, which its row does not name")
    return reaction


def answer(request: Request, view: RpcView, now: datetime) -> RpcDecision[Reply]:
    """What a session answers to ``request``, and what it commits with the answer."""
    decision: RpcDecision[Reply] = RPC_OF[type(request)].rule(request, view, now)
    return decision


def _is_over(step: Step, view: StepView) -> bool:
    turn: TurnId | None = getattr(step, "turn", None)
    return turn is not None and not view.runs(turn)


def _targets(reaction: Reaction) -> frozenset[type[Any]]:
    match reaction:
        case StepDecision(next=GoTo(steps)):
            return frozenset(map(type, steps))
        case StepDecision(next=end):
            return frozenset({type(end)})
        case effect:
            return frozenset({type(effect)})
