"""Tools and models fail, and Workers die."""

from __future__ import annotations

from typing import Final

from dex_agents_model.simulation import (
    Asks,
    Breaks,
    Concludes,
    Raises,
    Refuses,
    Returns,
    ScriptedRunner,
    ThoroughRunner,
)

from ..story import LetsGo, Story, WorkerDies, approves, cancels, says
from .cast import ALL_HELD, EACH_EFFECT, HELD_MODEL, LOOK, PAY, PLAIN, PUT, REFUND, asking

FAILURES: Final = (
    Story(
        name="a tool says that it failed",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(LOOK, PAY), Concludes("A pity."))},
            {"look": Refuses("no such order"), "pay": Refuses("no money")},
        ),
    ),
    Story(
        name="a tool of each effect raises at every attempt",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(*EACH_EFFECT), Concludes("A pity."))},
            {use.tool_name: Raises() for use in EACH_EFFECT},
        ),
    ),
    Story(
        name="a tool of each effect raises once",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(*EACH_EFFECT), Concludes("At last."))},
            {use.tool_name: Raises(attempts=1, then=Returns("late")) for use in EACH_EFFECT},
        ),
    ),
    Story(
        name="a model call breaks once",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Breaks(then=Concludes("At last.")),)}),
    ),
    Story(
        name="the model breaks after tools ran, and the next turn is told",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(LOOK, PAY), Breaks("no answer"))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="the model breaks, and the runner keeps what was finished",
        options=PLAIN,
        first_message="go",
        runner=ThoroughRunner({"go": (Asks(LOOK, PAY), Breaks())}),
        acts=(says("on", "m-1"),),
    ),
)

DEATHS: Final = (
    Story(
        name="a Worker dies during the model call",
        options=PLAIN,
        first_message="hello",
        held=HELD_MODEL,
        acts=(says("next", "m-1"), WorkerDies(), LetsGo("turn-1")),
    ),
    Story(
        name="a Worker dies during a tool of each effect",
        options=PLAIN,
        first_message="go",
        runner=asking(*EACH_EFFECT),
        held=ALL_HELD,
        acts=(WorkerDies(), *map(LetsGo, sorted(ALL_HELD))),
    ),
    Story(
        name="a Worker dies while people are asked",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND, LOOK),
        acts=(WorkerDies(), approves("refund")),
    ),
    Story(
        name="a Worker dies, and the turn is cancelled",
        options=PLAIN,
        first_message="go",
        runner=asking(PUT, PAY),
        held=frozenset({"turn-1/put", "turn-1/pay"}),
        acts=(WorkerDies(), cancels(), LetsGo("turn-1/put"), says("on", "m-1")),
    ),
)
