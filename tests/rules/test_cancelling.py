"""How a person stops a turn: what the RPC does at once, and what is recorded of the turn then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Cancelled,
    FinalCall,
    OutcomeUnknown,
    Runnable,
    Succeeded,
    ToolEffect,
)
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    DrainChannels,
    GoTo,
    RecordApproval,
    RpcDecision,
    SetCancelledTurn,
    SetInterrupts,
    SetState,
    StepDecision,
    Write,
)
from dex_agents_model.effects import BuildUnfinishedTurn, Entered, UnfinishedTurnBuilt
from dex_agents_model.events import ToolCallFinished
from dex_agents_model.ids import InterruptId, ToolCallId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterruptResolution,
    AgentMessage,
    AgentUserMessage,
    ApprovalDecision,
    ApprovalRecord,
    FrameworkMessage,
    MessageRole,
    RunningModel,
    RunningTools,
    TakenSteering,
    TurnCancelled,
    WaitingForUserMessage,
)
from dex_agents_model.requests import CancelTurn
from dex_agents_model.steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    CompactHistory,
    RecordCompactionFailure,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnCancelled,
    ResumeTurn,
    RunModel,
)
from dex_agents_model.text import digest
from dex_agents_model.views import SessionView, UnfinishedTurnView

from .cases import Answers, Case, Reacts, claim_of
from .samples import (
    CALLING,
    DECIDED_BEFORE,
    IDLE,
    NEXT_TURN,
    NOW,
    TURN,
    USING_TOOLS,
    call,
    told,
    view,
)

# --- the RPC -----------------------------------------------------------------------------------

STOPS: Final[RpcDecision[bool]] = RpcDecision(
    writes=(SetCancelledTurn(TURN), SetInterrupts(())),
    reply=True,
    next=GoTo((RecordTurnCancelled(TURN),)),
    cancel=(
        RunModel,
        CompactHistory,
        RecordCompactionFailure,
        ResumeTurn,
        AwaitToolApproval,
        CallTool,
        CallSingleAttemptTool,
        RecordToolFailure,
        RecordToolOutcomeUnknown,
    ),
)
CANCELS = tuple(
    Answers(
        f"cancel_turn__{claim}",
        CancelTurn(TURN),
        view(SessionView, state=state, cancelled_turn=cancelled),
        then,
    )
    for claim, state, cancelled, then in (
        ("stops_a_model_call", CALLING, None, STOPS),
        ("stops_tools", USING_TOOLS, None, STOPS),
        ("accepts_a_repeat_and_does_nothing", USING_TOOLS, TURN, RpcDecision(reply=True)),
        ("accepts_a_repeat_after_the_end", IDLE, TURN, RpcDecision(reply=True)),
        ("refuses_a_turn_that_has_ended", IDLE, None, RpcDecision(reply=False)),
        ("refuses_an_earlier_turn", RunningModel(3, 4, 0), None, RpcDecision(reply=False)),
        ("refuses_before_the_start", None, None, RpcDecision(reply=False)),
        ("stops_a_turn_after_one_that_was_stopped", USING_TOOLS, NEXT_TURN, STOPS),
    )
)

# --- the record --------------------------------------------------------------------------------

STEP: Final = RecordTurnCancelled(TURN)
STATE: Final = RunningTools(turn_count=2, message_count=3, model_calls=2, steering_count=2)
EARLIER: Final = NOW - timedelta(seconds=5)
UNFENCED: Final = AgentSessionOptions(fence_single_attempt_tools=False)

FOUND: Final = Succeeded(call("a"), "found")
READING: Final = Runnable(call("b", order=1))
WRITING: Final = Runnable(call("c", ToolEffect.IDEMPOTENT_WRITE, order=2))
ONCE: Final = Runnable(call("d", ToolEffect.NON_IDEMPOTENT_WRITE, order=3))
OPEN: Final = Runnable(evolve(ONCE.call, fenced=False))
UNSAID: Final = Runnable(evolve(ONCE.call, fenced=None))
ASKED: Final = AwaitingApproval(call("e", ToolEffect.UNCLASSIFIED, order=4))

WHY: Final = "the turn was cancelled while the call may have run"
SAID: Final = tuple(
    TakenSteering(model_calls, AgentUserMessage(text, f"id of {text}"))
    for model_calls, text in ((1, "sooner"), (2, "now"))
)
ITEMS: Final = (FrameworkMessage(MessageRole.ASSISTANT, "<call>"),)
KEPT: Final = (AgentMessage(4, TURN, MessageRole.ASSISTANT, "<call>"),)
NOTE: Final = """\
[Dex] The previous turn was cancelled after these tool calls ran:
- tool_a {} -> succeeded: found
- tool_b {} -> cancelled: The tool call was not run: the turn was cancelled.
Do not repeat these tool calls unless the user asks again."""


def ended(
    *stored: AppendMessages | AppendUserMessage,
    now_final: tuple[FinalCall, ...] = (),
    decided: tuple[ApprovalRecord, ...] = (),
) -> StepDecision:
    """The turn is over; ``stored`` is what the history keeps of it."""
    count = sum(len(s.messages) if isinstance(s, AppendMessages) else 1 for s in stored)
    writes: tuple[Write, ...] = (
        SetState(WaitingForUserMessage(2, 3 + count, TurnCancelled())),
        *stored,
        *(RecordApproval(record, n) for n, record in enumerate(decided, DECIDED_BEFORE)),
        DrainChannels(tuple(record.interrupt_id for record in decided)),
        ClearTurn(),
    )
    finished = told(*(ToolCallFinished(r.tool_call_id, r.tool_name, r.status) for r in now_final))
    return StepDecision(
        commit=Commit(writes=writes, events=finished), next=GoTo((AwaitUserMessage(),))
    )


def said(sequence: int, text: str, message_id: str = "") -> AppendUserMessage:
    return AppendUserMessage(sequence, TURN, AgentUserMessage(text, message_id))


def kept(decision: ApprovalDecision, **changes: Any) -> ApprovalRecord:
    asked = InterruptId("turn-2.e")
    plain = ApprovalRecord(asked, TURN, ToolCallId("e"), "tool_e", digest("{}"), decision, NOW)
    return evolve(plain, **changes)


def unfinished(*records: AgentToolCall, **changes: Any) -> UnfinishedTurnView:
    """A turn that is cancelled and whose state still runs."""
    given = {"state": STATE, "cancelled_turn": TURN, "run_state": "state", "tool_calls": records}
    return view(UnfinishedTurnView, **{**given, **changes})


CALLS = tuple(
    Reacts(
        f"record_turn_cancelled__{claim}",
        STEP,
        unfinished(open_call, **changes),
        Entered(),
        BuildUnfinishedTurn(TURN, "state", (final,), None),
    )
    for claim, open_call, changes, final in (
        ("leaves_a_final_call", FOUND, {}, FOUND),
        ("cancels_a_read", READING, {}, Cancelled(READING.call)),
        ("does_not_know_of_an_idempotent_write", WRITING, {}, OutcomeUnknown(WRITING.call, WHY)),
        ("cancels_a_write_that_nobody_claimed", ONCE, {}, Cancelled(ONCE.call)),
        ("does_not_know_of_a_claimed_write", ONCE, {"claimed": frozenset({ToolCallId("d")})},
         OutcomeUnknown(ONCE.call, WHY)),
        ("does_not_know_of_a_write_without_a_fence", OPEN, {}, OutcomeUnknown(OPEN.call, WHY)),
        ("does_not_know_of_a_write_of_an_earlier_release", UNSAID, {}, OutcomeUnknown(UNSAID.call, WHY)),
        ("cancels_a_fenced_write_whatever_this_worker_fences", ONCE, {"options": UNFENCED}, Cancelled(ONCE.call)),
        ("cancels_what_waits_for_a_person", ASKED, {"options": UNFENCED}, Cancelled(ASKED.call)),
    )
)  # fmt: skip
FIRST_CALL = Reacts(
    "record_turn_cancelled__keeps_nothing_of_a_turn_stopped_at_its_first_model_call",
    STEP,
    unfinished(state=RunningModel(2, 3, 0), run_state=None),
    Entered(),
    ended(),
)
NOW_FINAL: Final[tuple[FinalCall, ...]] = (Cancelled(READING.call),)
ENDS = tuple(
    Reacts(
        f"finish_cancelled_turn__{claim}",
        STEP,
        unfinished(*records, steering=steering),
        UnfinishedTurnBuilt(messages, None),
        ended(*stored, now_final=now_final),
    )
    for claim, records, steering, messages, stored, now_final in (
        ("notes_what_ran", (FOUND, READING), (), None, (said(4, NOTE),), NOW_FINAL),
        ("notes_nothing_when_no_tool_ran", (READING,), (), None, (), NOW_FINAL),
        ("keeps_the_exact_items_instead_of_a_note", (FOUND, READING), (), ITEMS, (AppendMessages(KEPT),), NOW_FINAL),
        ("keeps_what_the_user_said_before_the_note", (FOUND, READING), SAID, None,
         (said(4, "sooner", "id of sooner"), said(5, "now", "id of now"), said(6, NOTE)), NOW_FINAL),
        ("keeps_behind_the_items_only_what_they_do_not_hold", (FOUND,), SAID, ITEMS,
         (AppendMessages(KEPT), said(5, "now", "id of now")), ()),
    )
)  # fmt: skip

ANSWER: Final = AgentInterruptResolution(InterruptId("turn-2.e"), True, EARLIER, resolved_by="Ada")
OTHER_ANSWER: Final = evolve(ANSWER, interrupt_id=InterruptId("turn-2.z"))
REJECTION: Final = AgentInterruptResolution(InterruptId("turn-2.e"), False, EARLIER, reason="why")
DECISIONS = tuple(
    Reacts(
        f"finish_cancelled_turn__{claim}",
        STEP,
        unfinished(ASKED, answers=answers),
        UnfinishedTurnBuilt(None, None),
        ended(now_final=(Cancelled(ASKED.call),), decided=(decided,)),
    )
    for claim, answers, decided in (
        ("keeps_that_nobody_decided", (OTHER_ANSWER,), kept(ApprovalDecision.CANCELLED)),
        ("keeps_an_approval_that_came_too_late_to_count", (OTHER_ANSWER, ANSWER),
         kept(ApprovalDecision.APPROVED, decided_at=EARLIER, resolved_by="Ada")),
        ("keeps_a_rejection_that_came_too_late_to_count", (REJECTION,),
         kept(ApprovalDecision.REJECTED, decided_at=EARLIER, reason="why")),
        ("keeps_that_a_message_superseded_the_question", (evolve(REJECTION, superseded=True),),
         kept(ApprovalDecision.SUPERSEDED, decided_at=EARLIER, reason="why")),
    )
)  # fmt: skip

CASES: tuple[Case, ...] = (*CANCELS, *CALLS, FIRST_CALL, *ENDS, *DECISIONS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_cancelling(case: Case) -> None:
    assert case.result() == case.then
