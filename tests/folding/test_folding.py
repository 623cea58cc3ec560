"""What a watcher sees of the running turn, by example."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import evolve, frozen

from dex_agents_model.calls import ToolCallStatus
from dex_agents_model.events import (
    AgentEvent,
    CustomEvent,
    EventPayload,
    HistoryCompacted,
    HistoryCompactionFailed,
    ModelCallFailedEvent,
    ReasoningDelta,
    SteeringTaken,
    TextDelta,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
    UsageRecorded,
)
from dex_agents_model.folding import LiveText, LiveToolCall, LiveTurn, fold_event, fold_events
from dex_agents_model.records import AgentUsage

from .telling import (
    ASKED_A,
    ASKED_B,
    EARLIER_TURN,
    NEXT_TURN,
    TURN,
    A,
    B,
    attempt,
    deferred,
    finished,
    raised,
    resolved,
    started,
    waiting,
)


@frozen
class Seen:
    """After ``told``, the turn that was begun looks as it did, but for what ``then`` names."""

    claim: str
    told: tuple[AgentEvent, ...]
    then: dict[str, Any]


BEGUN: Final = attempt("Await-1", TurnStarted(3))
MODEL: Final = "RunModel-1"
TOOL_A: Final = "CallTool-1"


def live_call(
    call: str, status: ToolCallStatus | None = None, *, told_by: str = MODEL
) -> LiveToolCall:
    return LiveToolCall(told_by, A if call == "a" else B, f"tool_{call}", status)


SPEECH = (
    Seen(
        "joins_what_one_model_call_says",
        attempt(MODEL, TextDelta("Hel"), TextDelta("lo")),
        {"texts": (LiveText(MODEL, "Hello"),)},
    ),
    Seen(
        "tells_reasoning_from_the_answer",
        attempt(MODEL, ReasoningDelta("Hm"), TextDelta("Hi"), ReasoningDelta("!")),
        {"texts": (LiveText(MODEL, "Hi", "Hm!"),)},
    ),
    Seen(
        "keeps_each_model_call_apart_in_order",
        (*attempt(MODEL, TextDelta("one")), *attempt("RunModel-2", TextDelta("two"))),
        {"texts": (LiveText(MODEL, "one"), LiveText("RunModel-2", "two"))},
    ),
    Seen(
        "keeps_apart_what_steps_say_at_the_same_time",
        tuple(
            event
            for both in zip(
                attempt(TOOL_A, TextDelta("a1"), TextDelta("a2")),
                attempt("CallTool-2", TextDelta("b1"), TextDelta("b2")),
                strict=True,
            )
            for event in both
        ),
        {"texts": (LiveText(TOOL_A, "a1a2"), LiveText("CallTool-2", "b1b2"))},
    ),
    Seen(
        "drops_what_a_lost_attempt_said",
        (*attempt(MODEL, TextDelta("Hel"), ReasoningDelta("Hm")),
         *attempt(MODEL, TextDelta("Good day"), number=2)),
        {"texts": (LiveText(MODEL, "Good day"),)},
    ),
    Seen(
        "drops_what_a_lost_attempt_said_even_if_the_next_says_nothing",
        (*attempt(MODEL, TextDelta("Hel")), *attempt(MODEL, deferred(A), number=3)),
        {"texts": (), "tool_calls": (live_call("a"),)},
    ),
    Seen(
        "drops_what_a_lost_attempt_says_late",
        (*attempt(MODEL, TextDelta("new"), number=2), *attempt(MODEL, TextDelta("old"))),
        {"texts": (LiveText(MODEL, "new"),)},
    ),
    Seen(
        "leaves_other_steps_alone_when_an_attempt_is_lost",
        (*attempt(MODEL, TextDelta("one"), deferred(A)), *attempt(TOOL_A, started(A)),
         *attempt(TOOL_A, started(A), number=2)),
        {"texts": (LiveText(MODEL, "one"),), "tool_calls": (live_call("a"),)},
    ),
    Seen(
        "counts_the_attempts_of_a_wait_apart",
        (*attempt(MODEL, TextDelta("one")),
         *attempt(MODEL, TextDelta("two"), number=2),
         *waiting(MODEL, TextDelta("three"))),
        {"texts": (LiveText(MODEL, "twothree"),)},
    ),
)  # fmt: skip
CALLS = (
    Seen(
        "shows_calls_in_the_order_in_which_they_were_asked_for",
        (*attempt(MODEL, deferred(A), deferred(B)), *attempt("CallTool-2", started(B), finished(B))),
        {"tool_calls": (live_call("a"), live_call("b", ToolCallStatus.SUCCEEDED))},
    ),
    Seen(
        "lets_a_later_end_of_a_call_replace_an_earlier_one",
        (*attempt(MODEL, deferred(A)), *attempt(TOOL_A, finished(A)),
         *attempt("RecordToolOutcomeUnknown-1", finished(A, ToolCallStatus.OUTCOME_UNKNOWN))),
        {"tool_calls": (live_call("a", ToolCallStatus.OUTCOME_UNKNOWN),)},
    ),
    Seen(
        "shows_a_call_as_open_when_it_starts_again",
        (*attempt(MODEL, deferred(A)), *attempt(TOOL_A, started(A), finished(A)),
         *attempt(TOOL_A, started(A), number=2)),
        {"tool_calls": (live_call("a"),)},
    ),
    Seen(
        "forgets_the_calls_that_a_lost_attempt_asked_for",
        (*attempt(MODEL, deferred(A)), *attempt(MODEL, deferred(B), number=2)),
        {"tool_calls": (live_call("b"),)},
    ),
    Seen(
        "shows_a_call_that_a_step_runs_by_itself",
        attempt(MODEL, started(A)),
        {"tool_calls": (live_call("a"),)},
    ),
    Seen(
        "shows_the_end_of_a_call_that_it_did_not_know",
        attempt(TOOL_A, finished(A)),
        {"tool_calls": (live_call("a", ToolCallStatus.SUCCEEDED, told_by=TOOL_A),)},
    ),
)  # fmt: skip
QUESTIONS = (
    Seen(
        "shows_questions_in_the_order_in_which_they_were_raised",
        (*waiting("Ask-1", raised(A)), *waiting("Ask-2", raised(B))),
        {"waiting_interrupts": (ASKED_A, ASKED_B)},
    ),
    Seen(
        "shows_a_question_once",
        (*waiting("Ask-1", raised(A)), *waiting("Ask-3", raised(A))),
        {"waiting_interrupts": (ASKED_A,)},
    ),
    Seen(
        "drops_a_question_that_was_answered",
        (*waiting("Ask-1", raised(A)), *waiting("Ask-2", raised(B)), *attempt("Ask-1", resolved(A))),
        {"waiting_interrupts": (ASKED_B,)},
    ),
    Seen(
        "asks_no_question_again_that_was_answered",
        (*waiting("Ask-1", raised(A)), *attempt("Ask-1", resolved(A)),
         *waiting("Ask-3", raised(A))),
        {"waiting_interrupts": ()},
    ),
    Seen(
        "takes_an_answer_to_a_question_that_it_did_not_know",
        attempt("Ask-1", resolved(A)),
        {"waiting_interrupts": ()},
    ),
)  # fmt: skip
ENDS = tuple(
    Seen(claim, (*waiting("Ask-1", raised(A)), *waiting("Await-2", payload)), {"ended": payload})
    for claim, payload in (
        ("ends_with_a_turn_that_completed", TurnCompletedEvent(2)),
        ("ends_with_a_turn_that_failed", TurnFailedEvent("lost")),
        ("ends_with_a_turn_that_was_cancelled", TurnCancelledEvent()),
    )
)
STRAYS = tuple(
    Seen(claim, (*waiting("Await-2", TurnCancelledEvent()), *late), {"ended": TurnCancelledEvent()})
    for claim, late in (
        ("asks_nothing_once_the_turn_has_ended", waiting("Ask-1", raised(A))),
        ("says_nothing_once_the_turn_has_ended", attempt(MODEL, TextDelta("late"))),
        ("ends_no_call_once_the_turn_has_ended", attempt(TOOL_A, finished(A))),
        ("ends_once", waiting("Await-3", TurnCompletedEvent(1))),
    )
)
QUIET = tuple(
    Seen(f"shows_nothing_of_{payload.type}", attempt(MODEL, payload), {})
    for payload in (
        SteeringTaken(1),
        UsageRecorded(AgentUsage(1), AgentUsage(2)),
        ModelCallFailedEvent("lost", AgentUsage(1)),
        HistoryCompacted(4),
        HistoryCompactionFailed("lost"),
        CustomEvent("progress", "{}"),
    )
)
GAPS = (
    Seen(
        "is_lost_when_the_start_of_an_attempt_is_missing",
        attempt(MODEL, TextDelta("Hel"), TextDelta("lo"))[1:],
        {"lost": True, "texts": (LiveText(MODEL, "lo"),)},
    ),
    Seen(
        "is_lost_when_the_middle_of_an_attempt_is_missing",
        attempt(MODEL, TextDelta("a"), TextDelta("b"), TextDelta("c"))[::2],
        {"lost": True, "texts": (LiveText(MODEL, "ac"),)},
    ),
    Seen(
        "is_lost_when_the_start_of_a_later_attempt_is_missing",
        (*attempt(MODEL, TextDelta("a")), *attempt(MODEL, TextDelta("b"), TextDelta("c"), number=2)[1:]),
        {"lost": True, "texts": (LiveText(MODEL, "c"),)},
    ),
    Seen(
        "stays_lost_while_the_turn_runs",
        (*attempt(MODEL, TextDelta("a"), TextDelta("b"))[1:], *attempt("RunModel-2", TextDelta("c"))),
        {"lost": True, "texts": (LiveText(MODEL, "b"), LiveText("RunModel-2", "c"))},
    ),
    Seen(
        "is_not_lost_when_a_lost_attempt_ends_early",
        (*attempt(MODEL, TextDelta("a"), TextDelta("b"))[:1], *attempt(MODEL, TextDelta("c"), number=2)),
        {"texts": (LiveText(MODEL, "c"),)},
    ),
)  # fmt: skip
CASES = (*SPEECH, *CALLS, *QUESTIONS, *ENDS, *STRAYS, *QUIET, *GAPS)


def shown(live: LiveTurn) -> LiveTurn:
    """``live`` without what it remembers to read on."""
    return evolve(live, attempts=(), settled_interrupts=())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_fold_events(case: Seen) -> None:
    live = fold_events((*BEGUN, *case.told))

    assert shown(live) == LiveTurn(turn_id=TURN, **case.then)


def test_live_turn__says_what_all_its_model_calls_said() -> None:
    told = (*attempt(MODEL, TextDelta("one, ")), *attempt("RunModel-2", TextDelta("two")))

    assert fold_events((*BEGUN, *told)).text == "one, two"


OTHER_TURN = attempt("Await-2", TurnStarted(5), turn=NEXT_TURN)


@pytest.mark.parametrize(
    ("before", "events", "lost"),
    [
        ((), BEGUN, False),
        ((), attempt(MODEL, TextDelta("a")), True),
        ((), waiting("Await-2", TurnCompletedEvent(1)), True),
        ((*BEGUN, *waiting("Await-2", TurnCompletedEvent(1))), OTHER_TURN, False),
        (BEGUN, OTHER_TURN, True),
        ((*BEGUN, *waiting("Await-2", TurnCompletedEvent(1))),
         attempt("RunModel-2", TextDelta("a"), turn=NEXT_TURN), True),
        ((*attempt("Await-0", TurnStarted(1), turn=EARLIER_TURN),
          *waiting("Await-1", TurnCompletedEvent(1), turn=EARLIER_TURN)), OTHER_TURN, True),
    ],
    ids=[
        "the first turn, from its start",
        "the first turn, from its middle",
        "the first turn, its end alone",
        "the next turn after an end",
        "the next turn without an end before it",
        "the next turn, from its middle",
        "a turn was left out",
    ],
)  # fmt: skip
def test_fold_event__is_lost_when_a_turn_does_not_follow_on_the_one_before(
    before: tuple[AgentEvent, ...], events: tuple[AgentEvent, ...], lost: bool
) -> None:
    assert fold_events(events, fold_events(before)).lost is lost


def test_fold_event__begins_anew_with_a_later_turn() -> None:
    before = (*BEGUN, *attempt(MODEL, TextDelta("a"), deferred(A)), *waiting("Ask-1", raised(A)))
    ended = waiting("Await-2", TurnFailedEvent("lost"))

    live = fold_events((*before, *ended, *OTHER_TURN))

    assert live == fold_events(OTHER_TURN)


@pytest.mark.parametrize(
    "payload", [TextDelta("late"), finished(A), TurnCompletedEvent(1)], ids=lambda p: p.type
)
def test_fold_event__takes_nothing_from_an_earlier_turn(payload: EventPayload) -> None:
    live = fold_events(OTHER_TURN)
    (late,) = attempt("RunModel-9", payload)

    assert fold_event(live, late) is live


def test_fold_event__gives_back_the_same_object_for_a_repeat() -> None:
    told = (*BEGUN, *attempt(MODEL, TextDelta("a"), TextDelta("b")))
    live = fold_events(told)

    assert [fold_event(live, repeated) is live for repeated in told] == [True] * 3
