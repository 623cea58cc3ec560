"""Long runs spare the garbage collector, and leave it as they found it."""

from __future__ import annotations

import gc

import pytest

from dex_agents_model.simulation.memory import uncollected


@pytest.mark.parametrize("enabled", [True, False])
def test_uncollected__leaves_the_collector_as_it_was(enabled: bool) -> None:
    try:
        if not enabled:
            gc.disable()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
