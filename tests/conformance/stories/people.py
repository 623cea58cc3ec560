"""People answer, speak to a turn that runs, and stop it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dex_agents_model.simulation import Asks, Breaks, Concludes, ScriptedRunner, ThoroughRunner

from ..story import LetsGo, Story, TimePasses, approves, cancels, options, rejects, says, steers
from .cast import ALL_HELD, EACH_EFFECT, HELD_MODEL, LOOK, PAY, PLAIN, PUT, REFUND, RESERVE, asking

APPROVALS: Final = (
    Story(
        name="an approved call runs",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND),
        acts=(approves("refund"), approves("refund")),
    ),
    Story(
        name="a rejected call does not run",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND, LOOK),
        acts=(rejects("refund", message="Not today."), approves("refund")),
    ),
    Story(
        name="edited arguments run in place of the model's",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND),
        acts=(
            approves("refund", edited="[7]"),
            approves("refund", digest="of other arguments"),
            approves("refund", edited='{"order": 8}'),
        ),
    ),
    Story(
        name="two questions are answered in the other order",
        options=PLAIN,
        first_message="go",
        runner=asking(RESERVE, REFUND),
        acts=(approves("refund"), rejects("reserve"), approves("nothing")),
    ),
    Story(
        name="nobody answers before the deadline",
        options=options(deadline=timedelta(seconds=1)),
        first_message="go",
        runner=asking(RESERVE, REFUND, LOOK),
        acts=(TimePasses(), approves("refund")),
    ),
)

STEERING: Final = (
    Story(
        name="steering during a tool",
        options=PLAIN,
        first_message="go",
        runner=asking(PUT),
        held=frozenset({"turn-1/put"}),
        acts=(steers("be brief", "m-1"), steers("be kind", "m-2"), LetsGo("turn-1/put")),
    ),
    Story(
        name="steering rejects what waits for approval",
        options=PLAIN,
        first_message="go",
        runner=asking(LOOK, REFUND),
        acts=(steers("rather not", "m-1"), approves("refund")),
    ),
    Story(
        name="steering that rejects nothing",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND),
        acts=(steers("by the way", "m-1", rejects=False), approves("refund")),
    ),
    Story(
        name="steering before the question is raised",
        options=PLAIN,
        first_message="go",
        runner=asking(REFUND, RESERVE),
        held=HELD_MODEL,
        acts=(steers("rather not", "m-1"), LetsGo("turn-1")),
    ),
    Story(
        name="steering while nothing runs",
        options=PLAIN,
        first_message="hello",
        acts=(steers("go on", "m-1"),),
    ),
    Story(
        name="steering that meets no later model call goes ahead of the queue",
        options=PLAIN,
        first_message="hello",
        held=HELD_MODEL,
        acts=(says("queued", "m-1"), steers("steered", "m-2"), LetsGo("turn-1")),
    ),
    Story(
        name="steering that a failed turn took stays a message",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(PUT), Breaks())}),
        held=frozenset({"turn-1/put"}),
        acts=(steers("be brief", "m-1"), LetsGo("turn-1/put"), says("on", "m-2")),
    ),
)

CANCELLING: Final = (
    Story(
        name="a turn that is over cannot be cancelled",
        options=PLAIN,
        first_message="hello",
        acts=(cancels(), says("on", "m-1"), cancels()),
    ),
    Story(
        name="cancelled during the model call, with messages queued",
        options=PLAIN,
        first_message="hello",
        held=HELD_MODEL,
        acts=(says("next", "m-1"), says("last", "m-2"), cancels(), cancels(), LetsGo("turn-1")),
    ),
    Story(
        name="cancelled during a tool of each effect",
        options=PLAIN,
        first_message="go",
        runner=asking(*EACH_EFFECT),
        held=ALL_HELD,
        acts=(cancels(), *map(LetsGo, sorted(ALL_HELD)), says("on", "m-1")),
    ),
    Story(
        name="cancelled during tools that no delivery claims",
        options=options(is_fenced=False),
        first_message="go",
        runner=asking(PAY, LOOK),
        held=frozenset({"turn-1/pay"}),
        acts=(cancels(), LetsGo("turn-1/pay"), says("on", "m-1")),
    ),
    Story(
        name="cancelled during an approval",
        options=PLAIN,
        first_message="go",
        runner=asking(LOOK, PAY, REFUND, RESERVE),
        acts=(
            cancels(),
            approves("refund"),
            says("go", "m-1"),  # its tools have results of their own
            rejects("refund", turn="turn-2"),
            approves("reserve", turn="turn-2"),
        ),
    ),
    Story(
        name="cancelled with a queued message whose turn uses the same call IDs",
        options=PLAIN,
        first_message="go",
        runner=asking(PAY, LOOK),
        held=frozenset({"turn-1/pay", "turn-1/look"}),
        acts=(says("go", "m-1"), cancels(), LetsGo("turn-1/pay"), LetsGo("turn-1/look")),
    ),
    Story(
        name="cancelled, and the runner keeps what was finished",
        options=PLAIN,
        first_message="go",
        runner=ThoroughRunner({"go": (Asks(PUT), Asks(LOOK, PAY), Concludes("Never said."))}),
        held=frozenset({"turn-1/put", "turn-1/look"}),
        acts=(
            steers("be brief", "m-1"),
            LetsGo("turn-1/put"),
            steers("be kind", "m-2"),
            cancels(),
            LetsGo("turn-1/look"),
        ),
    ),
)
