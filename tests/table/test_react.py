"""What `react` and `await_conditions` themselves decide, before any rule does."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import NOTHING, evolve, fields, fields_dict

import dex_agents_model.table
from dex_agents_model.calls import Runnable
from dex_agents_model.decision import EndBranch, StepDecision, WaitDecision
from dex_agents_model.effects import (
    AttemptsExhausted,
    DeadlineReached,
    Entered,
    HistorySummarized,
    InterruptAnswered,
    Occurrence,
    ToolCallsRequested,
    ToolRaised,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    UnfinishedTurnBuilt,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterruptResolution,
    AgentState,
    AgentUserMessage,
    RunningModel,
    RunningTools,
    SteeringMessage,
    WaitingForUserMessage,
)
from dex_agents_model.requests import CancelTurn
from dex_agents_model.spec import Spec, on
from dex_agents_model.steps import AwaitUserMessage, CallTool, RecordTurnFailure, Step
from dex_agents_model.table import RPC_OF, SPEC_OF, SPECS, answer, await_conditions, react
from dex_agents_model.views import CallView, SessionView, UnfinishedTurnView
from dex_agents_model.waits import NoWait
from tests.rules.samples import NOW, TURN, call, call_view, view

A = ToolCallId("a")
SAMPLES: dict[type[Occurrence], Occurrence] = {
    Entered: Entered(),
    UserSpoke: UserSpoke(AgentUserMessage("hello")),
    InterruptAnswered: InterruptAnswered(
        AgentInterruptResolution(InterruptId("turn-2.a"), True, NOW)
    ),
    DeadlineReached: DeadlineReached(),
    ToolResultsArrived: ToolResultsArrived(),
    AttemptsExhausted: AttemptsExhausted("lost"),
    TurnCompleted: TurnCompleted(()),
    ToolCallsRequested: ToolCallsRequested("state", ()),
    ToolReturned: ToolReturned("found"),
    ToolRaised: ToolRaised("broken"),
    UserSteered: UserSteered(SteeringMessage(AgentUserMessage("hello"))),
    HistorySummarized: HistorySummarized("short"),
    UnfinishedTurnBuilt: UnfinishedTurnBuilt(None, "lost"),
}
OF_A_TURN = tuple(entry for entry in SPECS if "turn" in fields_dict(entry.step))
OVER: tuple[AgentState | None, ...] = (
    None,
    WaitingForUserMessage(turn_count=2, message_count=4),
    RunningModel(turn_count=3, message_count=5, model_calls=0),
    RunningTools(turn_count=3, message_count=5, model_calls=1),
)


def by_step(entry: Spec[Any, Any]) -> str:
    return entry.step.__name__


def step_of(entry: Spec[Any, Any]) -> Step:
    """The Step, with an input of the running turn."""
    inputs = {"turn": TURN, "call": A, "expected_result_count": 1, "through_sequence": 2}
    needed = {f.name: inputs[f.name] for f in fields(entry.step) if f.default is NOTHING}
    build: Any = entry.step
    step: Step = build(**needed)
    return step


@pytest.mark.parametrize("state", OVER, ids=lambda state: getattr(state, "status", "not started"))
@pytest.mark.parametrize("entry", OF_A_TURN, ids=by_step)
def test_await_conditions__waits_for_nothing_once_the_turn_is_over(
    entry: Spec[Any, Any], state: AgentState | None
) -> None:
    given: Any = view(entry.reads, state=state)

    assert await_conditions(step_of(entry), given, NOW) == WaitDecision(wait=NoWait())


@pytest.mark.parametrize("state", OVER, ids=lambda state: getattr(state, "status", "not started"))
@pytest.mark.parametrize("entry", OF_A_TURN, ids=by_step)
def test_react__ends_the_branch_once_the_turn_is_over(
    entry: Spec[Any, Any], state: AgentState | None
) -> None:
    given: Any = view(entry.reads, state=state)
    step = step_of(entry)

    for occurrence in SAMPLES.values():
        assert react(step, given, occurrence, NOW) == StepDecision(next=EndBranch())


def test_specs__every_step_but_those_between_turns_names_its_turn() -> None:
    assert [by_step(entry) for entry in SPECS if entry not in OF_A_TURN] == [
        "StartAgentSession",
        "AwaitUserMessage",
    ]


@pytest.mark.parametrize(
    "entry", [entry for entry in OF_A_TURN if not entry.outlives_cancel], ids=by_step
)
def test_react__ends_the_branch_of_a_cancelled_turn(entry: Spec[Any, Any]) -> None:
    given: Any = view(entry.reads, cancelled_turn=TURN)
    step = step_of(entry)

    assert await_conditions(step, given, NOW) == WaitDecision(wait=NoWait())
    for occurrence in SAMPLES.values():
        assert react(step, given, occurrence, NOW) == StepDecision(next=EndBranch())


def test_specs__only_the_step_that_records_it_outlives_a_cancel() -> None:
    assert [by_step(entry) for entry in SPECS if entry.outlives_cancel] == ["RecordTurnCancelled"]


@pytest.mark.parametrize("entry", [entry for entry in SPECS if entry.wait is None], ids=by_step)
def test_await_conditions__lets_a_step_without_a_wait_execute_at_once(
    entry: Spec[Any, Any],
) -> None:
    given: Any = view(entry.reads)

    assert await_conditions(step_of(entry), given, NOW) == WaitDecision(wait=NoWait())


@pytest.mark.parametrize("entry", OF_A_TURN, ids=by_step)
def test_react__refuses_what_has_no_row(entry: Spec[Any, Any]) -> None:
    given: Any = view(entry.reads)
    step = step_of(entry)

    for occurrence in SAMPLES.keys() - {row.on for row in entry.rows}:
        message = rf"^the table has no row {entry.step.__name__}\.{occurrence.__name__}$"
        with pytest.raises(StateCorrupt, match=message):
            react(step, given, SAMPLES[occurrence], NOW)


def test_react__refuses_what_has_no_row_between_turns() -> None:
    given = view(SessionView, state=WaitingForUserMessage())

    with pytest.raises(StateCorrupt, match=r"no row AwaitUserMessage\.DeadlineReached$"):
        react(AwaitUserMessage(), given, DeadlineReached(), NOW)


def test_react__refuses_a_rule_that_leads_where_its_row_does_not_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stray(step: CallTool, view: CallView, on: Entered, now: object) -> StepDecision:
        return StepDecision(next=EndBranch())

    row = on(Entered, stray, AwaitUserMessage)
    monkeypatch.setattr(dex_agents_model.table, "_ROWS", {(CallTool, Entered): row})
    given = call_view(CallView, Runnable(call("a")), options=AgentSessionOptions())

    with pytest.raises(
        StateCorrupt, match=r"^stray leads to \['EndBranch'\], which CallTool\.Entered"
    ):
        react(CallTool(TURN, A), given, Entered(), NOW)


def test_rules__refuse_to_end_a_turn_that_does_not_run() -> None:
    """`react` never asks this of a rule: such a turn is over."""
    (ends,) = (row for row in SPEC_OF[RecordTurnFailure].rows if row.on is UnfinishedTurnBuilt)
    given = view(UnfinishedTurnView, state=WaitingForUserMessage(2, 4))

    with pytest.raises(
        StateCorrupt, match=r"^a turn that ends has the state WaitingForUserMessage"
    ):
        ends.rule(RecordTurnFailure(TURN), given, UnfinishedTurnBuilt(None, "lost"), NOW)


def test_answer__refuses_a_rule_that_starts_what_its_line_does_not_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = evolve(RPC_OF[CancelTurn], to=())
    monkeypatch.setattr(dex_agents_model.table, "RPC_OF", {CancelTurn: line})

    with pytest.raises(StateCorrupt, match=r"^cancel_turn starts or ends Steps that its line does"):
        answer(CancelTurn(TURN), view(SessionView), NOW)


def test_answer__refuses_a_rule_that_ends_what_its_line_does_not_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = evolve(RPC_OF[CancelTurn], cancels=RPC_OF[CancelTurn].cancels[1:])
    monkeypatch.setattr(dex_agents_model.table, "RPC_OF", {CancelTurn: line})

    with pytest.raises(StateCorrupt, match=r"^cancel_turn starts or ends Steps that its line does"):
        answer(CancelTurn(TURN), view(SessionView), NOW)


@pytest.mark.parametrize(
    ("number", "cancelled", "has_ended", "is_over"),
    [
        (1, None, True, True),
        (2, None, False, False),
        (3, None, True, True),
        (2, 2, False, True),
        (2, 1, False, False),
        (1, 1, True, True),
    ],
)
def test_session_view__tells_an_ended_turn_from_a_cancelled_one(
    number: int, cancelled: int | None, has_ended: bool, is_over: bool
) -> None:
    given = view(SessionView, cancelled_turn=None if cancelled is None else TurnId.of(cancelled))
    turn = TurnId.of(number)

    assert (given.has_ended(turn), given.is_over(turn)) == (has_ended, is_over)
