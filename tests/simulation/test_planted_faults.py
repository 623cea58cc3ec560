"""A simulator that catches nothing proves nothing: each fault that is planted in the rules is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from dex_agents_model.decision import AppendMessages, Write
from dex_agents_model.effects import TurnCompleted
from dex_agents_model.records import MessageRole
from dex_agents_model.rules import failure
from dex_agents_model.simulation import INVARIANTS, Fault, Scenario, explore
from dex_agents_model.simulation.actions import Change
from dex_agents_model.simulation.invariants import each_stored_call_has_its_result, named
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.steps import RunModel

from .faults import FAULTS, PlantedFault
from .faults.cancelling import CANCELLED_UNLOCKED, RESUME_UNLOCKED
from .planting import Plant, decisions, writing


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
    def no_tool_starts_twice(change: Change) -> Iterator[str]:
        if any(started.times > 1 for started in change.after.ledger.started):
            yield "twice"

    seen = explore(_unfenced())
    strict = explore(_unfenced(), invariants=(no_tool_starts_twice,))

    assert (seen.findings, seen.is_complete) == ((), True)
    (finding,) = strict.findings
    assert finding.trace[-1].endswith(Fault.REDELIVERY)


def test_explore__finds_that_an_unfenced_call_is_taken_for_unstarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure, "may_have_started", lambda record, claimed: claimed)

    findings = explore(_unfenced()).findings

    assert "a turn without answer tells what ran" in {each.invariant for each in findings}


@pytest.mark.parametrize("scenario", ["cancel", "cancel-failing", "cancel-keeping-items"])
@pytest.mark.parametrize(
    "unlocked", [RESUME_UNLOCKED, CANCELLED_UNLOCKED], ids=["resume", "record"]
)
def test_explore__finds_that_two_locks_stand_behind_another_line(
    unlocked: Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch)

    seen = explore(SCENARIOS[scenario])

    assert (seen.findings, seen.is_complete) == ((), True)


def _unnamed(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    return AppendMessages(
        tuple(
            evolve(m, tool_call_id=None) if m.role is MessageRole.ASSISTANT else m
            for m in write.messages
        )
    )


def test_results__are_asked_of_no_runner_whose_messages_do_not_name_their_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, writing(_unnamed))(monkeypatch)

    seen = explore(SCENARIOS["two-messages"], invariants=(each_stored_call_has_its_result,))

    assert (seen.findings, seen.is_complete) == ((), True)


def test_faults__each_invariant_is_broken_by_one_of_them() -> None:
    broken = {fault.broken for fault in FAULTS}
    unbroken = {named(checker) for checker in INVARIANTS} - broken

    assert unbroken == set()
