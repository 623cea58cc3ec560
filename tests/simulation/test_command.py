"""``python -m dex_agents_model.simulation``: what it prints and what it exits with."""

from __future__ import annotations

import pytest

from dex_agents_model.effects import TurnCompleted
from dex_agents_model.simulation import ONE_FAULT, explore
from dex_agents_model.simulation.__main__ import main
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.steps import RunModel

from .planting import decisions, going


def test_explore__prints_a_line_a_scenario_and_the_sums(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = explore(SCENARIOS["two-messages"], faults=ONE_FAULT)

    code = main(["explore", "two-messages"])

    line, sums = capsys.readouterr().out.splitlines()
    counts = f"{seen.states} distinct states, {seen.edges} edges"
    assert (code, line) == (0, f"two-messages: {counts}, frontier empty")
    assert sums.startswith(f"1 scenarios: {counts}, ")
    assert sums.endswith(" seconds, 0 broken promises")


def test_explore__fails_and_prints_how_to_see_a_broken_promise_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions(RunModel, TurnCompleted, going(lambda steps: ()))(monkeypatch)

    code = main(["explore", "two-messages", "--faults", "0"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert "  BROKEN: one control branch is live: 0 control branches are live: none" in lines

    (again,) = {line for line in lines if line.startswith("  again: ")}
    command = again.removeprefix("  again: python -m dex_agents_model.simulation ")
    assert main(command.split()) == 0
    replayed = capsys.readouterr().out.splitlines()
    assert replayed[3] == "   4. RunModel(turn-1).execute: commits by RunModel.TurnCompleted"


def test_live__prints_a_line_a_life(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["live", "3", "--lives", "2", "--actions", "50"])

    first, second = capsys.readouterr().out.splitlines()
    assert code == 0
    assert first.startswith("seed 3: ")
    assert second.startswith("seed 4: ")
    assert first.endswith("every promise kept")


def test_replay__shows_what_is_stored_and_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["replay", "two-messages", "0.0", "--faults", "0"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "   1. StartAgentSession(hello).execute: is handed out"
    assert any(line.startswith("      AgentState: {") for line in lines)
    assert lines[-1] == "      RunModel(turn-1): ready"
