"""How a person's answer, or its absence, decides whether a call may run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import AwaitingApproval, Failed, Rejected, Runnable, ToolEffect
from dex_agents_model.decision import (
    Commit,
    EndBranch,
    GoTo,
    PutToolCall,
    RecordApproval,
    SetInterrupts,
    StepDecision,
    ToolCallFinished,
    WaitDecision,
    Write,
)
from dex_agents_model.decision import InterruptResolved as PublishAnswer
from dex_agents_model.effects import DeadlineReached, Entered, InterruptAnswered
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import (
    EventPayload,
    InterruptRaised,
    InterruptResolved,
)
from dex_agents_model.events import ToolCallFinished as ToolCallFinishedEvent
from dex_agents_model.ids import InterruptId, ToolCallId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentUserMessage,
    ApprovalDecision,
    ApprovalRecord,
    SteeringMessage,
)
from dex_agents_model.steps import AwaitToolApproval, CallSingleAttemptTool, CallTool
from dex_agents_model.table import react
from dex_agents_model.text import digest
from dex_agents_model.views import ApprovalView, PendingSteering
from dex_agents_model.waits import ForInterruptResolution, NoWait

from .cases import Case, Reacts, Waits, claim_of
from .samples import DECIDED_BEFORE, NOW, TURN, call, call_view, told

A: Final = ToolCallId("a")
STEP: Final = AwaitToolApproval(TURN, A)
ASKED: Final = InterruptId("turn-2.a")
WRITE: Final = call("a", ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=True)
WAITING: Final = AwaitingApproval(WRITE)
SECOND: Final = timedelta(seconds=1)
HOUR: Final = AgentSessionOptions(interrupt_deadline=timedelta(hours=1))
IN_AN_HOUR: Final = NOW + timedelta(hours=1)

QUESTION: Final = AgentInterrupt(ASKED, TURN, A, "tool_a", "{}", digest("{}"))
DUE: Final = evolve(QUESTION, deadline=IN_AN_HOUR)
EARLIER: Final = evolve(
    QUESTION, interrupt_id=InterruptId("turn-2.0"), tool_call_id=ToolCallId("0")
)
LATER: Final = evolve(QUESTION, interrupt_id=InterruptId("turn-2.z"), tool_call_id=ToolCallId("z"))


MILD: Final = PendingSteering("c-1", SteeringMessage(AgentUserMessage("and"), False))
STERN: Final = PendingSteering("c-2", SteeringMessage(AgentUserMessage("no"), True))


def raised(deadline: datetime | None) -> Commit:
    return Commit(events=told(InterruptRaised(ASKED, A, "tool_a", deadline)))


def stamped(*interrupts: AgentInterrupt, deadline: datetime) -> Commit:
    return evolve(raised(deadline), writes=(SetInterrupts(interrupts),))


def kept(decision: ApprovalDecision, decided_at: datetime = NOW, **said: Any) -> RecordApproval:
    """What stays of the question about the call, after its turn."""
    return RecordApproval(
        ApprovalRecord(ASKED, TURN, A, "tool_a", digest("{}"), decision, decided_at, **said),
        DECIDED_BEFORE,
    )


def rejected(record: Rejected, resolved: EventPayload, *writes: Write) -> StepDecision:
    return StepDecision(
        commit=Commit(
            writes=(PutToolCall(record), *writes),
            publishes=(ToolCallFinished(record),),
            events=told(resolved, ToolCallFinishedEvent(A, "tool_a", record.status)),
        ),
        next=EndBranch(),
    )


WAITS = tuple(
    Waits(
        f"wait_for_answer__{claim}",
        STEP,
        call_view(ApprovalView, WAITING, interrupts=listed, options=options),
        WaitDecision(commit=commit, wait=ForInterruptResolution(ASKED, at_most)),
        now,
    )
    for claim, listed, options, now, commit, at_most in (
        ("asks_for_ever_without_a_deadline", (QUESTION,), AgentSessionOptions(), NOW, raised(None), None),
        ("stamps_the_deadline_as_it_asks", (EARLIER, QUESTION, LATER), HOUR, NOW,
         stamped(EARLIER, DUE, LATER, deadline=IN_AN_HOUR), timedelta(hours=1)),
        ("rounds_the_deadline_up_to_whole_seconds", (QUESTION,), HOUR, NOW - timedelta(microseconds=1),
         stamped(DUE, deadline=IN_AN_HOUR), timedelta(hours=1) + SECOND),
        ("keeps_a_deadline_that_was_stamped_before", (DUE,), HOUR, IN_AN_HOUR - 90 * SECOND,
         raised(IN_AN_HOUR), 90 * SECOND),
        ("keeps_a_deadline_though_the_option_is_gone", (DUE,), AgentSessionOptions(), NOW,
         raised(IN_AN_HOUR), timedelta(hours=1)),
        ("waits_a_whole_second_for_a_part_of_one", (DUE,), HOUR, IN_AN_HOUR - timedelta(microseconds=1),
         raised(IN_AN_HOUR), SECOND),
        ("waits_no_longer_at_the_deadline", (DUE,), HOUR, IN_AN_HOUR, raised(IN_AN_HOUR), timedelta(0)),
        ("waits_no_longer_after_the_deadline", (DUE,), HOUR, IN_AN_HOUR + SECOND, raised(IN_AN_HOUR), timedelta(0)),
        ("lets_no_timer_overtake_an_accepted_answer", (EARLIER,), HOUR, NOW, Commit(), None),
    )
)  # fmt: skip
WAITS_FOR_NOTHING = tuple(
    Waits(
        f"wait_for_answer__waits_for_nothing_when_the_call_{name}",
        STEP,
        call_view(ApprovalView, record, interrupts=(DUE,), options=HOUR),
        WaitDecision(wait=NoWait()),
    )
    for name, record in (
        ("is_runnable", Runnable(WRITE)),
        ("is_final", Rejected(WRITE, "no")),
        ("is_cleared", None),
    )
)

AT_NOON: Final = NOW - SECOND
APPROVAL: Final = AgentInterruptResolution(ASKED, True, AT_NOON)
ANSWERS = tuple(
    Reacts(
        f"take_answer__{claim}",
        STEP,
        call_view(ApprovalView, AwaitingApproval(call("a", effect)), interrupts=(EARLIER, LATER)),
        InterruptAnswered(APPROVAL),
        StepDecision(
            commit=Commit(
                writes=(
                    PutToolCall(Runnable(call("a", effect))),
                    kept(ApprovalDecision.APPROVED, AT_NOON),
                ),
                events=told(InterruptResolved(ASKED, True, None)),
            ),
            next=GoTo((running(TURN, A),)),
        ),
    )
    for claim, effect, running in (
        ("lets_an_approved_read_run", ToolEffect.READ, CallTool),
        ("lets_an_approved_idempotent_write_run", ToolEffect.IDEMPOTENT_WRITE, CallTool),
        ("lets_an_approved_write_run_once", ToolEffect.NON_IDEMPOTENT_WRITE, CallSingleAttemptTool),
        ("lets_an_approved_unclassified_call_run_once", ToolEffect.UNCLASSIFIED, CallSingleAttemptTool),
    )
)  # fmt: skip
EDITED: Final = evolve(WRITE, arguments='{"n": 2}', arguments_edited=True)
EDIT = Reacts(
    "take_answer__puts_the_approver_s_arguments_in_place_and_keeps_who_did_and_why",
    STEP,
    call_view(ApprovalView, WAITING),
    InterruptAnswered(
        evolve(APPROVAL, edited_arguments='{"n": 2}', resolved_by="Ada", reason="less")
    ),
    StepDecision(
        commit=Commit(
            writes=(
                PutToolCall(Runnable(EDITED)),
                kept(
                    ApprovalDecision.APPROVED,
                    AT_NOON,
                    resolved_by="Ada",
                    reason="less",
                    edited_arguments_digest=digest('{"n": 2}'),
                ),
            ),
            events=told(InterruptResolved(ASKED, True, None)),
        ),
        next=GoTo((CallSingleAttemptTool(TURN, A),)),
    ),
)
REFUSALS = tuple(
    Reacts(
        f"take_answer__{claim}",
        STEP,
        call_view(ApprovalView, WAITING, interrupts=(LATER,)),
        InterruptAnswered(AgentInterruptResolution(ASKED, False, AT_NOON, message)),
        rejected(
            Rejected(WRITE, stored),
            InterruptResolved(ASKED, False, stored),
            kept(ApprovalDecision.REJECTED, AT_NOON),
        ),
    )
    for claim, message, stored in (
        ("rejects_with_the_person_s_words", "too much", "too much"),
        ("rejects_with_words_of_its_own_when_there_are_none", None, "The tool call was rejected."),
        ("rejects_with_words_of_its_own_when_they_are_empty", "", "The tool call was rejected."),
    )
)
NEVER_RUN: Final = "The tool call was not run: it was superseded by a new user message."
SUPERSEDED: Final = AgentInterruptResolution(ASKED, False, NOW, NEVER_RUN, superseded=True)
SUPERSEDES = Reacts(
    "take_answer__tells_a_steered_turn_from_a_person_s_rejection",
    STEP,
    call_view(ApprovalView, WAITING),
    InterruptAnswered(SUPERSEDED),
    rejected(
        Rejected(WRITE, NEVER_RUN),
        InterruptResolved(ASKED, False, NEVER_RUN),
        kept(ApprovalDecision.SUPERSEDED),
    ),
)
STEERED = tuple(
    Waits(
        f"wait_for_answer__{claim}",
        STEP,
        call_view(
            ApprovalView, WAITING, interrupts=listed, options=HOUR, pending_steering=steering
        ),
        then,
    )
    for claim, listed, steering, then in (
        (
            "answers_itself_when_a_message_came_before_the_question",
            (EARLIER, QUESTION, LATER),
            (MILD, STERN),
            WaitDecision(
                commit=Commit(
                    writes=(SetInterrupts((EARLIER, LATER)),),
                    publishes=(PublishAnswer(SUPERSEDED),),
                ),
                wait=ForInterruptResolution(ASKED),
            ),
        ),
        (
            "asks_on_beside_a_message_that_rejects_nothing",
            (DUE,),
            (MILD,),
            WaitDecision(
                commit=raised(IN_AN_HOUR), wait=ForInterruptResolution(ASKED, timedelta(hours=1))
            ),
        ),
        (
            "lets_an_accepted_answer_count_though_a_message_came",
            (LATER,),
            (STERN,),
            WaitDecision(wait=ForInterruptResolution(ASKED)),
        ),
    )
)

UNANSWERED: Final = "Nobody approved the tool call before its deadline; it was not run."


def expires(now: datetime) -> StepDecision:
    return rejected(
        Rejected(WRITE, UNANSWERED, expired=True),
        InterruptResolved(ASKED, False, UNANSWERED),
        SetInterrupts((EARLIER, LATER)),
        kept(ApprovalDecision.EXPIRED, now),
    )


WAITS_AGAIN = StepDecision(next=GoTo((STEP,)))
EXPIRIES = tuple(
    Reacts(
        f"expire__{claim}",
        STEP,
        call_view(ApprovalView, WAITING, interrupts=listed, options=HOUR),
        DeadlineReached(),
        then,
        now,
    )
    for claim, listed, now, then in (
        ("waits_again_a_second_before", (EARLIER, DUE, LATER), IN_AN_HOUR - SECOND, WAITS_AGAIN),
        ("rejects_at_the_deadline", (EARLIER, DUE, LATER), IN_AN_HOUR, expires(IN_AN_HOUR)),
        (
            "rejects_a_second_after",
            (EARLIER, DUE, LATER),
            IN_AN_HOUR + SECOND,
            expires(IN_AN_HOUR + SECOND),
        ),
        ("waits_for_the_answer_that_took_the_question", (EARLIER, LATER), IN_AN_HOUR, WAITS_AGAIN),
        ("waits_again_for_a_question_without_a_deadline", (QUESTION,), IN_AN_HOUR, WAITS_AGAIN),
    )
)

ENDED_BRANCH = StepDecision(next=EndBranch())
TOO_LATE = tuple(
    Reacts(
        f"{rule}__publishes_nothing_when_the_call_{name}",
        STEP,
        call_view(ApprovalView, record, interrupts=(DUE,)),
        on,
        ENDED_BRANCH,
        IN_AN_HOUR,
    )
    for rule, on in (
        ("take_answer", InterruptAnswered(APPROVAL)),
        ("expire", DeadlineReached()),
        ("nothing_to_ask", Entered()),
    )
    for name, record in (
        ("is_runnable", Runnable(WRITE)),
        ("is_final", Failed(WRITE, "broken")),
        ("is_cleared", None),
    )
)

CASES: tuple[Case, ...] = (
    *WAITS,
    *WAITS_FOR_NOTHING,
    *STEERED,
    *ANSWERS,
    EDIT,
    *REFUSALS,
    SUPERSEDES,
    *EXPIRIES,
    *TOO_LATE,
)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_approval(case: Case) -> None:
    assert case.result() == case.then


def test_take_answer__refuses_the_answer_for_another_call() -> None:
    given = call_view(ApprovalView, WAITING)
    answered = InterruptAnswered(evolve(APPROVAL, interrupt_id=LATER.interrupt_id))

    with pytest.raises(StateCorrupt, match=r"turn-2\.a was given the answer to turn-2\.z"):
        react(STEP, given, answered, NOW)
