"""Which answers of a person count, and which delivery may run a call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import AwaitingApproval, OutcomeUnknown, Runnable, ToolEffect
from dex_agents_model.decision import (
    ClaimCall,
    InterruptResolved,
    RpcDecision,
    SetInterrupts,
    SetTakenRequestIds,
)
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.records import AgentInterrupt, AgentInterruptResolution
from dex_agents_model.requests import (
    MAX_EDITED_ARGUMENT_BYTES,
    ClaimToolCall,
    ResolveInterrupt,
)
from dex_agents_model.table import answer
from dex_agents_model.text import digest
from dex_agents_model.views import AnswerView, CallView

from .cases import Answers, Case, claim_of
from .samples import IDLE, NOW, TURN, USING_TOOLS, call, call_view, view

REFUSED: Final[RpcDecision[bool]] = RpcDecision(reply=False)
ACCEPTED_BEFORE: Final[RpcDecision[bool]] = RpcDecision(reply=True)
SECOND: Final = timedelta(seconds=1)

ASKED: Final = InterruptId("turn-2.a")
DIGEST: Final = digest("{}")
OTHER: Final = AgentInterrupt(
    InterruptId("turn-2.b"), TURN, ToolCallId("b"), "tool_b", "{}", DIGEST
)
QUESTION: Final = AgentInterrupt(ASKED, TURN, ToolCallId("a"), "tool_a", "{}", DIGEST)
DUE: Final = evolve(QUESTION, deadline=NOW)
FULL_EDIT: Final = '{"a": "' + "x" * (MAX_EDITED_ARGUMENT_BYTES - 9) + '"}'
APPROVAL: Final = ResolveInterrupt(ASKED, approved=True)


def resolved(
    *taken: str, approved: bool = True, at: datetime = NOW, **said: Any
) -> RpcDecision[bool]:
    """``taken`` is the new list of request IDs, when it is written."""
    return RpcDecision(
        writes=(SetInterrupts((OTHER,)), *((SetTakenRequestIds(taken),) if taken else ())),
        publishes=(InterruptResolved(AgentInterruptResolution(ASKED, approved, at, **said)),),
        reply=True,
    )


RESOLUTIONS = tuple(
    Answers(
        f"resolve_interrupt__{claim}",
        request,
        view(AnswerView, state=USING_TOOLS, interrupts=interrupts, taken_request_ids=taken),
        then,
        NOW + later,
    )
    for claim, request, interrupts, taken, later, then in (
        ("accepts_an_approval", APPROVAL, (QUESTION, OTHER), (), 0 * SECOND, resolved()),
        (
            "accepts_a_rejection",
            ResolveInterrupt(ASKED, False, "too much"),
            (OTHER, QUESTION),
            (),
            0 * SECOND,
            resolved(approved=False, rejection_message="too much"),
        ),
        (
            "drops_the_rejection_message_of_an_approval",
            evolve(APPROVAL, rejection_message="too much"),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(),
        ),
        (
            "accepts_before_the_deadline",
            APPROVAL,
            (DUE, OTHER),
            (),
            -SECOND,
            resolved(at=NOW - SECOND),
        ),
        ("refuses_at_the_deadline", APPROVAL, (DUE, OTHER), (), 0 * SECOND, REFUSED),
        ("refuses_after_the_deadline", APPROVAL, (DUE, OTHER), (), SECOND, REFUSED),
        ("refuses_what_nobody_asks", APPROVAL, (OTHER,), (), 0 * SECOND, REFUSED),
        (
            "accepts_the_digest_of_what_was_shown",
            evolve(APPROVAL, arguments_digest=DIGEST),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(),
        ),
        (
            "refuses_the_digest_of_other_arguments",
            evolve(APPROVAL, arguments_digest=digest("{ }")),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            REFUSED,
        ),
        (
            "refuses_an_empty_digest",
            evolve(APPROVAL, arguments_digest=""),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            REFUSED,
        ),
        (
            "keeps_who_answered_and_why",
            evolve(APPROVAL, resolved_by="Ada\x00", reason="x" * 1025),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(resolved_by="Ada\ufffd", reason="x" * 1024 + "... [1025 bytes in full]"),
        ),
        (
            "shortens_a_long_name_of_who_answered",
            evolve(APPROVAL, resolved_by="x" * 1025),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(resolved_by="x" * 1024 + "... [1025 bytes in full]"),
        ),
        (
            "takes_an_approver_s_arguments",
            evolve(APPROVAL, edited_arguments=FULL_EDIT),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            resolved(edited_arguments=FULL_EDIT),
        ),
        *(
            (
                f"refuses_arguments_that_are_{name}",
                evolve(APPROVAL, edited_arguments=edited),
                (QUESTION, OTHER),
                (),
                0 * SECOND,
                REFUSED,
            )
            for name, edited in (
                ("empty", ""),
                ("no_json", "{"),
                ("no_object", "[]"),
                ("a_text", '"{}"'),
                ("too_long", FULL_EDIT + " "),
                ("not_clean", '{"a": "\x00"}'),
            )
        ),
        (
            "refuses_a_rejection_with_arguments",
            evolve(APPROVAL, approved=False, edited_arguments="{}"),
            (QUESTION, OTHER),
            (),
            0 * SECOND,
            REFUSED,
        ),
        (
            "marks_the_id_of_an_answer",
            evolve(APPROVAL, request_id="r-2"),
            (QUESTION, OTHER),
            ("r-1",),
            0 * SECOND,
            resolved("r-1", "r-2"),
        ),
        (
            "accepts_a_repeat_after_its_question_is_gone_and_its_deadline_past",
            evolve(APPROVAL, request_id="r-1"),
            (OTHER,),
            ("r-1",),
            SECOND,
            ACCEPTED_BEFORE,
        ),
    )
)

A: Final = ToolCallId("a")
WRITE: Final = call("a", ToolEffect.NON_IDEMPOTENT_WRITE)
OF_ANOTHER_TURN: Final = evolve(WRITE, turn_id=TurnId("turn-1"))
GRANTED: Final[RpcDecision[bool]] = RpcDecision(writes=(ClaimCall(A, "worker-1"),), reply=True)
CLAIMS = tuple(
    Answers(
        f"claim_tool_call__{claim}",
        ClaimToolCall(TURN, A, "worker-1"),
        call_view(CallView, record, claimant=claimant, **changes),
        then,
    )
    for claim, record, claimant, changes, then in (
        ("is_won_by_the_first", Runnable(WRITE), None, {}, GRANTED),
        ("may_be_repeated_by_the_winner", Runnable(WRITE), "worker-1", {}, RpcDecision(reply=True)),
        ("is_lost_by_any_other", Runnable(WRITE), "worker-2", {}, REFUSED),
        ("is_refused_before_the_approval", AwaitingApproval(WRITE), None, {}, REFUSED),
        ("is_refused_for_a_final_call", OutcomeUnknown(WRITE, "lost"), "worker-1", {}, REFUSED),
        ("is_refused_for_a_cleared_call", None, None, {}, REFUSED),
        ("is_refused_for_a_call_of_another_turn", Runnable(OF_ANOTHER_TURN), None, {}, REFUSED),
        ("is_refused_when_the_turn_has_ended", Runnable(WRITE), None, {"state": IDLE}, REFUSED),
        ("is_refused_when_the_turn_is_cancelled", Runnable(WRITE), None, {"cancelled_turn": TURN}, REFUSED),
        ("is_granted_whatever_turn_was_cancelled_before", Runnable(WRITE), None,
         {"cancelled_turn": TurnId("turn-1")}, GRANTED),
    )
)  # fmt: skip

CASES: tuple[Case, ...] = (*RESOLUTIONS, *CLAIMS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_answers(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.parametrize(
    ("message", "published"),
    [
        ("\x00\ud800", "\ufffd\ufffd"),
        ("x" * 8193, "x" * 8192 + "... [8193 bytes in full]"),
    ],
    ids=["cleaned", "shortened"],
)
def test_resolve_interrupt__cleans_and_shortens_the_rejection_message(
    message: str, published: str
) -> None:
    given = view(AnswerView, state=USING_TOOLS, interrupts=(QUESTION, OTHER))

    assert answer(ResolveInterrupt(ASKED, False, message), given, NOW) == resolved(
        approved=False, rejection_message=published
    )


def test_resolve_interrupt__refuses_arguments_that_are_nested_too_deeply() -> None:
    given = view(AnswerView, state=USING_TOOLS, interrupts=(QUESTION, OTHER))
    edited = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"

    assert answer(evolve(APPROVAL, edited_arguments=edited), given, NOW) == REFUSED


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_resolve_interrupt__refuses_numbers_that_json_does_not_have(number: str) -> None:
    given = view(AnswerView, state=USING_TOOLS, interrupts=(QUESTION, OTHER))
    edited = f'{{"a": {number}}}'

    assert answer(evolve(APPROVAL, edited_arguments=edited), given, NOW) == REFUSED
