"""The search itself: it is complete, it is the same each time, and what it finds can be walked again."""

from __future__ import annotations

import pytest

from dex_agents_model.decision import SetState
from dex_agents_model.effects import TurnCompleted
from dex_agents_model.simulation import NO_FAULTS, Faults, Scenario, ScriptedRunner, explore, replay
from dex_agents_model.simulation.engine import Engine
from dex_agents_model.simulation.report import lines_of, sums_of
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.steps import RunModel

from .planting import decisions, without, writing

SMALL = ("two-messages", "compaction")
HELLO = Scenario(name="hello", about="one turn", runner=ScriptedRunner(), first_message="hello")


@pytest.mark.parametrize("name", SCENARIOS)
def test_explore__every_promise_holds_without_faults(name: str) -> None:
    seen = explore(SCENARIOS[name], faults=NO_FAULTS)

    assert (seen.findings, seen.is_complete) == ((), True)


@pytest.mark.parametrize("name", SMALL)
def test_explore__every_promise_holds_with_two_faults(name: str) -> None:
    seen = explore(SCENARIOS[name], faults=Faults(2))

    assert (seen.findings, seen.is_complete) == ((), True)


def test_explore__sees_the_same_worlds_each_time() -> None:
    first, second = explore(HELLO), explore(HELLO)

    assert (first.states, first.edges) == (second.states, second.edges)


@pytest.mark.parametrize("faults", [1, 2])
def test_explore__leaves_out_no_world_but_for_the_faults_that_are_left(faults: int) -> None:
    """A plain search, which looks behind every world, comes to the same ones."""
    engine = Engine(SCENARIOS["compaction"], Faults(faults))
    met, ahead = {engine.begin()}, [engine.begin()]
    while ahead:
        new = {edge.world for edge in engine.edges(ahead.pop())} - met
        met |= new
        ahead += new

    seen = explore(SCENARIOS["compaction"], faults=Faults(faults))

    assert seen.states < len(met)
    assert seen.states == len({world._replace(faults_left=0) for world in met})


def test_explore__says_when_it_was_cut() -> None:
    seen = explore(SCENARIOS["three-tools"], max_states=100)

    assert not seen.is_complete
    assert list(lines_of(seen)) == [
        f"three-tools: {seen.states} distinct states, {seen.edges} edges, frontier cut"
    ]


def test_report__prints_a_line_a_scenario_and_the_sums() -> None:
    seen = explore(HELLO)

    assert list(lines_of(seen)) == [
        f"hello: {seen.states} distinct states, {seen.edges} edges, frontier empty"
    ]
    assert sums_of((seen, seen)).startswith(
        f"2 scenarios: {2 * seen.states} distinct states, {2 * seen.edges} edges, "
    )


def test_explore__finds_the_shortest_way_and_can_walk_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, writing(without(SetState)))(monkeypatch)

    (finding,) = explore(HELLO, faults=NO_FAULTS).findings

    assert finding.trace == (
        "StartAgentSession(hello).execute: is handed out",
        "StartAgentSession(hello).execute: commits by StartAgentSession.Entered",
        "RunModel(turn-1).execute: is handed out",
        "RunModel(turn-1).execute: commits by RunModel.TurnCompleted",
    )
    assert replay(HELLO, finding.choices, faults=NO_FAULTS)[0] == finding.trace


def test_report__names_the_command_that_walks_the_way_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, writing(without(SetState)))(monkeypatch)

    seen = explore(SCENARIOS["two-messages"], stop_at="messages have no gap")

    (line,) = (line for line in lines_of(seen) if line.startswith("  again: "))
    choices = ".".join(map(str, seen.findings[0].choices))
    assert line == (
        f"  again: python -m dex_agents_model.simulation replay two-messages {choices} --faults 1"
    )


def test_replay__says_that_a_way_is_of_another_scenario() -> None:
    with pytest.raises(ValueError, match=r"step 2 of the way takes choice 9 of 1: "):
        replay(HELLO, (0, 9), faults=NO_FAULTS)
