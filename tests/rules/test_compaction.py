"""How a session stays within the model's context window."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model.calls import Failed, Succeeded
from dex_agents_model.decision import (
    Commit,
    DropMessages,
    GoTo,
    SetState,
    SetSummary,
    SetUsage,
    StepDecision,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    CallModel,
    Entered,
    HistorySummarized,
    Occurrence,
    Summarize,
)
from dex_agents_model.errors import ContractBroken, StateCorrupt
from dex_agents_model.events import (
    HistoryCompacted,
    HistoryCompactionFailed,
    TurnEvent,
    UsageRecorded,
)
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.policy import AgentSessionOptions, CompactionPolicy
from dex_agents_model.records import (
    AgentMessage,
    AgentUserMessage,
    HistoryRange,
    HistorySummary,
    MessageRole,
    RunningModel,
    RunningTools,
    TakenSteering,
)
from dex_agents_model.steps import (
    CompactHistory,
    RecordCompactionFailure,
    RecordTurnFailure,
    RunModel,
    Step,
)
from dex_agents_model.table import react
from dex_agents_model.views import CompactionView, SessionView, StepView, TurnView

from .cases import Case, Reacts, claim_of
from .samples import NOW, SUM, USED, call, view

# Three turns of two messages each, and the message that begins the fourth: ten tokens each.
TURN: Final = TurnId("turn-4")
STATE: Final = RunningModel(turn_count=4, message_count=7, model_calls=0)
GAVE_UP: Final = evolve(STATE, may_compact=False)
RUN: Final = RunModel(TURN)
MESSAGES: Final = tuple(
    AgentMessage(n, TurnId.of((n + 1) // 2), MessageRole.USER, f"{n}" * 30) for n in range(1, 8)
)
LONG_TURNS: Final = tuple(
    AgentMessage(n, TurnId.of((n + 2) // 3), MessageRole.USER, f"{n % 10}" * 30)
    for n in range(1, 11)
)
SUMMARY: Final = HistorySummary(4, "s" * 30, USED)


def within(window: int, **limits: Any) -> AgentSessionOptions:
    """A policy that compacts above ``window`` tokens, and keeps nothing of earlier turns, unless told."""
    policy = CompactionPolicy(
        context_window_tokens=window, **{"trigger_ratio": 1.0, "keep_recent_tokens": 0, **limits}
    )
    return AgentSessionOptions(compaction=policy)


def turn(options: AgentSessionOptions, **changes: object) -> TurnView:
    return view(TurnView, **{"state": STATE, "messages": MESSAGES, "options": options, **changes})


def compact(through: int) -> StepDecision:
    return StepDecision(next=GoTo((CompactHistory(TURN, through),)))


CALLS_WITH_ALL: Final = CallModel(TURN, MESSAGES, None, ())
DRAWN: Final = Succeeded(call("a"), "", framework_content="p" * 30)
SAID: Final = TakenSteering(1, AgentUserMessage("u" * 30))
# With these two bytes the input is one byte short of one token more.
BROKEN: Final = Failed(call("a"), "x" * 3000)
NEARLY: Final[dict[str, object]] = {
    "steering": (TakenSteering(1, AgentUserMessage("u" * 2)),),
    "tool_calls": (BROKEN,),
}
BOUNDARIES = tuple(
    Reacts(f"call_the_model__{claim}", step, turn(options, **changes), Entered(), then)
    for claim, step, options, changes, then in (
        ("compacts_nothing_without_a_policy", RUN, AgentSessionOptions(), {}, CALLS_WITH_ALL),
        ("compacts_nothing_at_the_trigger", RUN, within(140, trigger_ratio=0.5), {}, CALLS_WITH_ALL),
        ("compacts_every_earlier_turn_above_the_trigger", RUN, within(138, trigger_ratio=0.5), {}, compact(6)),
        ("keeps_the_newest_turns_that_are_to_be_kept", RUN, within(69, keep_recent_tokens=20), {}, compact(4)),
        ("keeps_no_turn_that_is_too_large_to_keep", RUN, within(69, keep_recent_tokens=19), {}, compact(6)),
        ("keeps_no_turn_that_is_one_byte_too_large", RUN, within(69, keep_recent_tokens=20),
         {"messages": (*MESSAGES[:5], evolve(MESSAGES[5], framework_item="6" * 31), MESSAGES[6])}, compact(6)),
        ("keeps_more_turns_when_more_are_to_be_kept", RUN, within(69, keep_recent_tokens=59), {}, compact(2)),
        ("counts_what_the_runner_adds", RUN, within(79), {"overhead_tokens": 10}, compact(6)),
        ("counts_what_is_reserved", RUN, within(79, reserved_input_tokens=10), {}, compact(6)),
        ("counts_the_run_state", RUN, within(79), {"run_state": "r" * 30}, compact(6)),
        ("counts_what_the_user_said_meanwhile", RUN, within(79), {"steering": (SAID,)}, compact(6)),
        ("counts_nothing_that_is_absent", RUN, within(70), NEARLY, evolve(CALLS_WITH_ALL, tool_calls=(BROKEN,))),
        ("summarises_through_the_last_message_of_a_turn", RUN, within(69),
         {"messages": LONG_TURNS, "state": evolve(STATE, message_count=10)}, compact(9)),
        ("counts_the_summary", RUN, within(39), {"summary": SUMMARY}, compact(6)),
        ("counts_a_message_as_it_is_estimated", RUN, within(70),
         {"messages": (*MESSAGES[:6], evolve(MESSAGES[6], estimated_tokens=11))}, compact(6)),
        ("counts_the_run_state_as_it_is_estimated", RUN, within(79),
         {"run_state": "r", "state": evolve(STATE, run_state_tokens=10)}, compact(6)),
        ("counts_a_content_as_it_is_estimated", RUN, within(79),
         {"tool_calls": (evolve(DRAWN, content_tokens=10),)}, compact(6)),
        ("counts_bytes_where_nothing_is_estimated", RUN, within(79), {"tool_calls": (DRAWN,)}, compact(6)),
    )
)  # fmt: skip
SUMMARISED = Reacts(
    "call_the_model__gives_the_summary_in_place_of_what_it_stands_for",
    RUN,
    turn(within(40), summary=SUMMARY),
    Entered(),
    CallModel(TURN, MESSAGES[4:], None, (), summary="s" * 30),
)
FAILED_BEFORE = Reacts(
    "call_the_model__goes_on_with_all_messages_when_no_summary_could_be_made",
    RUN,
    turn(within(138, trigger_ratio=0.5), state=GAVE_UP),
    Entered(),
    CALLS_WITH_ALL,
)

# The results of the turn: 1,000 tokens each, of which 2,048 bytes are left when they are shortened.
FIRST: Final = Succeeded(call("a"), "x" * 3000)
SECOND: Final = Succeeded(call("b", order=1), "x" * 3000)
SMALL: Final = Succeeded(call("c", order=2), "x" * 2048)
ONE_BYTE_OVER: Final = Succeeded(call("c", order=2), "x" * 2049)
ODD: Final = Succeeded(call("a"), "x" * 3001)
ERROR: Final = Failed(call("d", order=3), "x" * 3000)
LATER: Final = Succeeded(call("e", order=4, model_call=2), "xxx")
TOO_MUCH: Final = StepDecision(
    next=GoTo(
        (
            RecordTurnFailure(
                TURN,
                "the turn no longer fits the context window, even with its tool results shortened",
            ),
        )
    )
)


def shortens(*names: str, run_state: str | None = None, of: tuple[Any, ...]) -> CallModel:
    return CallModel(TURN, MESSAGES, run_state, of, shortened_results=tuple(map(ToolCallId, names)))


RESULTS = tuple(
    Reacts(
        f"call_the_model__{claim}",
        RUN,
        turn(within(window, keep_recent_tokens=100), tool_calls=records, run_state=run_state),
        Entered(),
        then,
    )
    for claim, window, records, run_state, then in (
        ("shortens_no_result_that_fits", 2070, (FIRST, SECOND), None, shortens(of=(FIRST, SECOND))),
        ("shortens_the_oldest_result_first", 2069, (FIRST, SECOND), None, shortens("a", of=(FIRST, SECOND))),
        ("shortens_as_many_as_it_must", 1700, (FIRST, SECOND), None, shortens("a", "b", of=(FIRST, SECOND))),
        ("shortens_none_that_is_short", 1069 + 682, (SMALL, SECOND), None, shortens("b", of=(SMALL, SECOND))),
        ("shortens_what_is_one_byte_too_long", 70 + 1682, (ONE_BYTE_OVER, SECOND), None,
         shortens("c", "b", of=(ONE_BYTE_OVER, SECOND))),
        ("goes_on_while_one_byte_is_too_much", 70 + 2000 - 318, (ODD, SECOND), None,
         shortens("a", "b", of=(ODD, SECOND))),
        ("fails_a_turn_that_is_one_byte_too_large", 70 + 1000 - 318, (ODD,), None, TOO_MUCH),
        ("shortens_none_that_is_no_result", 1069, (ERROR, SECOND), None, shortens("b", of=(ERROR, SECOND))),
        ("counts_earlier_results_only_in_the_run_state", 81, (FIRST, LATER), "r" * 30,
         shortens(run_state="r" * 30, of=(FIRST, LATER))),
        ("shortens_earlier_results_too", 80, (FIRST, LATER), "r" * 30,
         shortens("a", run_state="r" * 30, of=(FIRST, LATER))),
        ("fails_a_turn_that_cannot_fit", 1000, (FIRST, SECOND), None, TOO_MUCH),
    )
)  # fmt: skip

COMPACT: Final = CompactHistory(TURN, 6)


def compaction(options: AgentSessionOptions, **changes: object) -> CompactionView:
    return view(
        CompactionView, **{"state": STATE, "messages": MESSAGES, "options": options, **changes}
    )


ASKS = tuple(
    Reacts(f"summarise__{claim}", COMPACT, given, Entered(), then)
    for claim, given, then in (
        (
            "asks_for_all_up_to_the_boundary",
            compaction(within(100, summary_token_limit=9)),
            Summarize(TURN, MESSAGES[:6], None, 9),
        ),
        (
            "adds_to_the_summary_before",
            compaction(within(100, summary_token_limit=9), summary=SUMMARY),
            Summarize(TURN, MESSAGES[4:6], "s" * 30, 9),
        ),
    )
)


def stored(text: str, *dropped: int, first: int = 1, state: RunningModel = STATE) -> StepDecision:
    drops = (DropMessages(dropped),) if dropped else ()
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(evolve(state, history=HistoryRange(first, 6))),
                SetUsage(SUM),
                SetSummary(HistorySummary(6, text, USED)),
                *drops,
            ),
            events=(
                TurnEvent(TURN, UsageRecorded(USED, SUM)),
                TurnEvent(TURN, HistoryCompacted(6)),
            ),
        ),
        next=GoTo((RUN,)),
    )


TRIMMED: Final = evolve(STATE, history=HistoryRange(5, 4))
SUMMARIES = tuple(
    Reacts(
        f"store_summary__{claim}",
        COMPACT,
        compaction(within(100, summary_token_limit=2, **kept), state=state),
        HistorySummarized(text, USED),
        then,
    )
    for claim, kept, state, text, then in (
        ("keeps_every_message", {}, STATE, "short", stored("short")),
        ("cleans_the_summary", {}, STATE, "a\x00", stored("a\ufffd")),
        ("cuts_a_summary_at_its_limit", {}, STATE, "1234567", stored("123456")),
        ("cuts_between_characters", {}, STATE, "1234\u20ac", stored("1234")),
        ("drops_what_is_not_to_be_kept", {"kept_summarised_messages": 2}, STATE, "short",
         stored("short", 1, 2, 3, 4, first=5)),
        ("drops_all_when_none_is_to_be_kept", {"kept_summarised_messages": 0}, STATE, "short",
         stored("short", 1, 2, 3, 4, 5, 6, first=7)),
        ("drops_nothing_while_there_are_few", {"kept_summarised_messages": 6}, STATE, "short", stored("short")),
        ("drops_only_what_was_not_dropped_before", {"kept_summarised_messages": 0}, TRIMMED, "short",
         stored("short", 5, 6, first=7)),
        ("brings_nothing_back", {"kept_summarised_messages": 6}, TRIMMED, "short", stored("short", first=5)),
    )
)  # fmt: skip


def gave_up(error: str) -> StepDecision:
    return StepDecision(
        commit=Commit(
            writes=(SetState(GAVE_UP),),
            events=(TurnEvent(TURN, HistoryCompactionFailed(error)),),
        ),
        next=GoTo((RUN,)),
    )


FAILURES = tuple(
    Reacts(
        f"go_on_uncompacted__{claim}",
        RecordCompactionFailure(TURN),
        view(SessionView, state=STATE),
        lost,
        then,
    )
    for claim, lost, then in (
        ("goes_on_and_says_why", AttemptsExhausted("lost", "TimeoutError"), gave_up("lost")),
        ("names_an_error_without_words", AttemptsExhausted("", "TimeoutError"), gave_up("TimeoutError")),
        ("cleans_the_error", AttemptsExhausted("\x00"), gave_up("\ufffd")),
        ("shortens_the_error", AttemptsExhausted("x" * 8193), gave_up("x" * 8192 + "... [8193 bytes in full]")),
    )
)  # fmt: skip

CASES: tuple[Case, ...] = (
    *BOUNDARIES,
    SUMMARISED,
    FAILED_BEFORE,
    *RESULTS,
    *ASKS,
    *SUMMARIES,
    *FAILURES,
)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_compaction(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.parametrize("text", ["", " \n"])
def test_store_summary__refuses_a_blank_one(text: str) -> None:
    with pytest.raises(ContractBroken, match=r"^the runner made a blank summary$"):
        react(COMPACT, compaction(within(100)), HistorySummarized(text), NOW)


@pytest.mark.parametrize("on", [Entered(), HistorySummarized("short")], ids=["before", "after"])
def test_compaction__refuses_to_work_without_a_policy(on: Occurrence) -> None:
    with pytest.raises(ContractBroken, match=r"this Worker's options have no compaction policy$"):
        react(COMPACT, compaction(AgentSessionOptions()), on, NOW)


def test_store_summary__refuses_a_turn_that_runs_tools() -> None:
    step: Step = COMPACT
    given: StepView = compaction(within(100), state=RunningTools(4, 7, 1))

    with pytest.raises(StateCorrupt, match="turn-4 compacts its history in the state RunningTools"):
        react(step, given, HistorySummarized("short"), NOW)


def test_go_on_uncompacted__refuses_a_turn_that_runs_tools() -> None:
    given = view(SessionView, state=RunningTools(4, 7, 1))
    message = "turn-4 could not compact its history in the state RunningTools"

    with pytest.raises(StateCorrupt, match=message):
        react(RecordCompactionFailure(TURN), given, AttemptsExhausted("lost"), NOW)


@pytest.mark.parametrize(
    ("window", "ratio", "trigger"),
    [(100, 0.29, 29), (1000, 0.0006, 1), (1000, 0.0004, 0), (100, 1.0, 100)],
)
def test_compaction_policy__rounds_its_trigger(window: int, ratio: float, trigger: int) -> None:
    policy = CompactionPolicy(context_window_tokens=window, trigger_ratio=ratio)

    assert policy.trigger_tokens == trigger


def test_compaction_policy__keeps_a_fifth_and_summarises_in_a_tenth_by_default() -> None:
    policy = CompactionPolicy(context_window_tokens=1000)

    assert (policy.trigger_tokens, policy.keep_recent_tokens, policy.summary_token_limit) == (
        850,
        200,
        100,
    )


@pytest.mark.parametrize(("window", "limit"), [(1, 1), (40_960, 4096), (1_000_000, 4096)])
def test_compaction_policy__bounds_the_summary_by_default(window: int, limit: int) -> None:
    assert CompactionPolicy(context_window_tokens=window).summary_token_limit == limit


@pytest.mark.parametrize(
    "limits",
    [
        {"context_window_tokens": 0},
        {"trigger_ratio": 0.0},
        {"trigger_ratio": 1.1},
        {"keep_recent_tokens": -1},
        {"reserved_input_tokens": -1},
        {"summary_token_limit": 0},
        {"summary_token_limit": 100_001},
        {"kept_summarised_messages": -1},
    ],
    ids=str,
)
def test_compaction_policy__refuses_what_cannot_be_kept(limits: dict[str, Any]) -> None:
    (name,) = limits

    with pytest.raises(ValueError, match=f"'{name}' must be"):
        CompactionPolicy(**{"context_window_tokens": 100, **limits})


@pytest.mark.parametrize(
    ("history", "behind"),
    [
        (HistoryRange(), range(1, 8)),
        (HistoryRange(1, 4), range(5, 8)),
        (HistoryRange(5, 4), range(5, 8)),
        (HistoryRange(7, 6), range(7, 8)),
        (HistoryRange(1, 7), range(8, 8)),
    ],
)
def test_behind_summary__names_the_messages_that_no_summary_stands_for(
    history: HistoryRange, behind: range
) -> None:
    assert history.behind_summary(7) == behind
