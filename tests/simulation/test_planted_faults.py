"""A simulator that catches nothing proves nothing: each fault that is planted in the rules is found."""

from __future__ import annotations

import pytest
from attrs import evolve

from dex_agents_model.rules import failure
from dex_agents_model.simulation import INVARIANTS, Scenario, explore
from dex_agents_model.simulation.invariants import named, single_attempt_tools_start_once
from dex_agents_model.simulation.scenarios import SCENARIOS

from .faults import FAULTS, PlantedFault


def _name(fault: PlantedFault) -> str:
    return fault.name.replace(" ", "-")


@pytest.mark.parametrize("fault", FAULTS, ids=_name)
def test_explore__finds_the_planted_fault(
    fault: PlantedFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault.plant(monkeypatch)

    seen = explore(SCENARIOS[fault.scenario], stop_at=fault.broken)

    found = {finding.invariant for finding in seen.findings}
    assert fault.broken in found


def _unfenced() -> Scenario:
    fenced = SCENARIOS["stale-claim"]
    return evolve(fenced, options=evolve(fenced.options, fence_single_attempt_tools=False))


def test_explore__without_the_fence_a_redelivery_starts_a_tool_twice_and_breaks_nothing_else() -> (
    None
):
    strict = single_attempt_tools_start_once.__name__.replace("_", " ")
    but_for_redelivery = tuple(
        single_attempt_tools_start_once(even_if_redelivered=False)
        if checker.__name__ == single_attempt_tools_start_once.__name__
        else checker
        for checker in INVARIANTS
    )

    broken = explore(_unfenced()).findings
    excused = explore(_unfenced(), invariants=but_for_redelivery)

    assert {finding.invariant for finding in broken} == {strict}
    assert (excused.findings, excused.is_complete) == ((), True)


def test_explore__finds_that_an_unfenced_call_is_taken_for_unstarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure, "may_have_started", lambda record, view, claimed: claimed)

    findings = explore(_unfenced()).findings

    assert "a turn without answer tells what ran" in {each.invariant for each in findings}


def test_faults__each_invariant_is_broken_by_one_of_them() -> None:
    broken = {fault.broken for fault in FAULTS}
    unbroken = {named(checker) for checker in INVARIANTS} - broken

    assert unbroken == set()
