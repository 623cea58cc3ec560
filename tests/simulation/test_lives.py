"""Random lives: they keep every promise, they are what their seed makes them, and they find planted faults."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from dex_agents_model.decision import AppendMessages, ClearTurn, Write
from dex_agents_model.effects import InterruptAnswered, TurnCompleted
from dex_agents_model.requests import ClaimToolCall
from dex_agents_model.simulation import Odds, simulate
from dex_agents_model.simulation.report import lines_of_life
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.steps import AwaitToolApproval, RunModel

from .planting import Plant, decisions, going, replies, spec, without, writing


@pytest.mark.parametrize("seed", range(20))
def test_simulate__keeps_every_promise(seed: int) -> None:
    life = simulate(seed)

    counts = f"{life.turns} turns, {life.actions} actions, {life.faults} faults"
    assert list(lines_of_life(life)) == [f"seed {seed}: {counts}, every promise kept"]
    assert life.turns > 10


def test_simulate__is_what_its_seed_makes_it() -> None:
    assert simulate(7, actions=200) == simulate(7, actions=200)
    assert simulate(7, actions=200) != evolve(simulate(8, actions=200), seed=7)


@pytest.mark.parametrize(
    "plant",
    [
        decisions(RunModel, TurnCompleted, writing(without(ClearTurn))),
        decisions(AwaitToolApproval, InterruptAnswered, going(lambda steps: ())),
        spec(AwaitToolApproval, execute_locks=()),
        replies(ClaimToolCall, lambda decision: evolve(decision, writes=())),
    ],
    ids=["records-outlive-their-turn", "approved-calls-are-forgotten", "no-lock", "no-claim"],
)
def test_simulate__finds_a_planted_fault(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    broken = next(life for seed in range(100) if (life := simulate(seed)).broken)

    *_, latest, again = lines_of_life(broken)
    assert latest == f"  {broken.actions:4}. {broken.last[-1]}"
    assert again == f"  again: python -m dex_agents_model.simulation live {broken.seed}"


def _another_text(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    answer = evolve(write.messages[-1], text="another")
    return AppendMessages((*write.messages[:-1], answer))


def test_simulate__finds_that_watchers_are_told_what_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, writing(_another_text))(monkeypatch)

    broken = simulate(0).broken

    assert broken is not None
    assert re.match(r"events never lie: turn-\d+ was told as .* and is stored as 'another'", broken)


def test_simulate__takes_a_scenario_and_odds_of_its_own() -> None:
    scenario = SCENARIOS["three-tools"]

    life = simulate(1, scenario=scenario, odds=Odds(faults=0, jumps=0))

    assert (life.broken, life.faults, life.turns) == (None, 0, 1)
