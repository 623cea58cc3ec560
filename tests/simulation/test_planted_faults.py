"""A simulator that catches nothing proves nothing: each fault that is planted in the rules is found."""

from __future__ import annotations

import pytest

from dex_agents_model.simulation import explore
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
