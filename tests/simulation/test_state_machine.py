"""Hypothesis drives the engine: it looks for a schedule that breaks a promise, and shrinks it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import DataObject, booleans, data, integers

from dex_agents_model.effects import TurnCompleted
from dex_agents_model.simulation import INVARIANTS, Faults
from dex_agents_model.simulation.actions import Does, Edge
from dex_agents_model.simulation.engine import Engine
from dex_agents_model.simulation.outside import Random
from dex_agents_model.simulation.progress import why_it_must_not_rest
from dex_agents_model.simulation.random_scenario import scenario_of
from dex_agents_model.simulation.waiting import after_time
from dex_agents_model.steps import RunModel

from .planting import decisions, going

_PEACE_WITHIN = 2_000


class Session(RuleBasedStateMachine):
    """One session that chance made up; what happens next in it is Hypothesis' to choose."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(scenario_of(Random(0), messages=4), Faults(3))
        self.world = self.engine.begin()
        self.complaints: list[str] = []

    @rule(seed=integers(0, 50))
    def begin_anew(self, seed: int) -> None:
        if self.world == self.engine.begin():
            self.engine = Engine(scenario_of(Random(seed), messages=4), Faults(3))
            self.world = self.engine.begin()

    @rule(choice=integers(0, 30), strikes=booleans())
    def go_on(self, choice: int, strikes: bool) -> None:
        ahead = list(self.engine.edges(self.world))
        faults = [edge for edge in ahead if not isinstance(edge.action.does, Does)]
        sound = [edge for edge in ahead if isinstance(edge.action.does, Does)]
        open_to_choice = (faults if strikes else sound) or ahead
        if open_to_choice:
            self._take(open_to_choice[choice % len(open_to_choice)])

    @rule(span_ms=integers(1, 200_000))
    def let_time_pass(self, span_ms: int) -> None:
        self.world = after_time(self.world, self.world.now_ms + span_ms)

    @rule(drawn=data())
    def answer_a_question(self, drawn: DataObject) -> None:
        edges = list(self.engine.callers.answers(self.world, approved=drawn.draw(booleans())))
        if edges:
            self._take(edges[drawn.draw(integers(0, len(edges) - 1))])

    @invariant()
    def every_promise_holds(self) -> None:
        assert self.complaints == []

    def teardown(self) -> None:
        for _ in range(_PEACE_WITHIN):
            calm = [edge for edge in self.engine.edges(self.world) if not edge.action.is_fate]
            if not calm:
                break
            self._take(calm[0])
        else:
            self.complaints.append("the session never comes to rest")
        assert [*self.complaints, *why_it_must_not_rest(self.world)] == []

    def _take(self, edge: Edge) -> None:
        self.world = edge.world
        self.complaints += [
            complaint
            for change in edge.changes
            for checker in INVARIANTS
            for complaint in checker(change)
        ]


SETTINGS = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_session__keeps_every_promise_whatever_hypothesis_does() -> None:
    run_state_machine_as_test(Session, settings=SETTINGS)


def test_session__hypothesis_finds_a_planted_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, going(lambda steps: ()))(monkeypatch)

    until_found = settings(
        SETTINGS, max_examples=1_000, phases=[Phase.generate], report_multiple_bugs=False
    )
    with pytest.raises(AssertionError, match="0 control branches are live"):
        run_state_machine_as_test(Session, settings=until_found)
