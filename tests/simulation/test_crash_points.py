"""Each scenario, run straight through, and struck once at every place where a fault can strike it."""

from __future__ import annotations

import pytest

from dex_agents_model.simulation import INVARIANTS, ONE_FAULT, Fault
from dex_agents_model.simulation.actions import Does, Edge
from dex_agents_model.simulation.engine import Engine
from dex_agents_model.simulation.progress import why_it_must_not_rest
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.simulation.world import World


def _sound(engine: Engine, world: World) -> Edge | None:
    """The first thing that can happen when nothing goes wrong; people act as soon as they can."""
    sound = (edge for edge in engine.edges(world) if isinstance(edge.action.does, Does))
    return next(sound, None)


def _straight(engine: Engine) -> list[World]:
    worlds = [engine.begin()]
    while (edge := _sound(engine, worlds[-1])) is not None:
        worlds.append(edge.world)
    return worlds


def _complaints(edge: Edge) -> list[str]:
    return [
        complaint
        for change in edge.changes
        for invariant in INVARIANTS
        for complaint in invariant(change)
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario__survives_a_fault_at_each_point_of_its_straight_run(name: str) -> None:
    engine = Engine(SCENARIOS[name], ONE_FAULT)
    struck = [
        edge
        for world in _straight(engine)
        for edge in engine.edges(world)
        if isinstance(edge.action.does, Fault)
    ]

    assert {edge.action.does for edge in struck} >= {Fault.CRASH_BEFORE_COMMIT}
    for edge in struck:
        complaints = _complaints(edge)
        world = edge.world
        while (following := _sound(engine, world)) is not None:
            complaints += _complaints(following)
            world = following.world
        complaints += why_it_must_not_rest(world)
        assert (str(edge.action), complaints) == (str(edge.action), [])
        assert (world.calls, world.ledger.queued, world.ledger.steering) == ((), (), ())
