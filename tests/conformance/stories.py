"""The stories. Each is a session that a user could have, and goes alike on every engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dex_agents_model import CompactionPolicy
from dex_agents_model.effects import HistorySummarized
from dex_agents_model.runner import SummaryRequest
from dex_agents_model.simulation import (
    Asks,
    Breaks,
    Concludes,
    Raises,
    Refuses,
    Returns,
    ScriptedFailure,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
)

from .story import (
    LetsGo,
    Story,
    TimePasses,
    WorkerDies,
    approves,
    cancels,
    options,
    rejects,
    says,
    steers,
    withdraws,
)

_PLAIN: Final = options()
_LOOK: Final = ToolUse("look", "look", '{"order": 7}')
_PUT: Final = ToolUse("put", "put", '{"order": 7}')
_PAY: Final = ToolUse("pay", "pay", '{"euros": 12}')
_POKE: Final = ToolUse("poke", "poke", '{"who": "Ada"}')
_RESERVE: Final = ToolUse("reserve", "reserve", '{"seat": 3}')
_REFUND: Final = ToolUse("refund", "refund", '{"order": 7}')
_EACH_EFFECT: Final = (_LOOK, _PUT, _PAY, _POKE)
_ALL_HELD: Final = frozenset(f"turn-1/{use.tool_call_id}" for use in _EACH_EFFECT)
_HELD_MODEL: Final = frozenset({"turn-1"})
_SMALL_WINDOW: Final = CompactionPolicy(
    context_window_tokens=1000, trigger_ratio=0.5, keep_recent_tokens=0
)


def _runner(*uses: ToolUse) -> ScriptedRunner:
    """The model asks for ``uses`` and concludes."""
    return ScriptedRunner({"go": (Asks(*uses), Concludes("Done so."))})


class ForgetfulRunner(ThoroughRunner):
    """A scripted runner that never gets a summary made."""

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        raise ScriptedFailure("no summary")


TURNS: Final = (
    Story(name="an answer", options=_PLAIN, first_message="hello"),
    Story(
        name="no first message, and blank ones are refused",
        options=_PLAIN,
        acts=(says(" \n", "m-1"), steers("", "m-2"), says("hello", "m-3")),
    ),
    Story(
        name="a tool of each effect at once",
        options=_PLAIN,
        first_message="go",
        runner=_runner(*_EACH_EFFECT),
    ),
    Story(
        name="tools in three rounds",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(_LOOK), Asks(_PUT, _PAY), Asks(_POKE), Concludes("Three rounds."))}
        ),
    ),
    Story(
        name="a tool call ID comes back in a later turn",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_PAY, _REFUND),
        acts=(
            approves("refund"),
            says("go", "m-1"),
            approves("refund"),
            rejects("refund", turn="turn-2"),
        ),
    ),
    Story(
        name="a tool call ID repeats within a turn",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(_LOOK), Asks(_LOOK))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="a runaway turn meets the limit of model calls",
        options=options(model_calls=2),
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(_LOOK), Asks(_PAY), Asks(_POKE))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="a response has more arguments than fit",
        options=options(argument_bytes=20),
        first_message="go",
        runner=_runner(_LOOK, _PUT),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="earlier turns are summarised",
        options=options(compaction=_SMALL_WINDOW),
        first_message="hello " * 200,
        runner=ThoroughRunner(
            {"go": (Asks(_LOOK), Concludes("Found."))}, {"look": Returns("x" * 1500)}
        ),
        acts=(says("again " * 200, "m-1"), says("go", "m-2"), says("hello", "m-3")),
    ),
    Story(
        name="a turn goes on without the summary that fails",
        options=options(compaction=_SMALL_WINDOW),
        first_message="hello " * 200,
        runner=ForgetfulRunner(),
        acts=(says("again " * 50, "m-1"),),
    ),
)

APPROVALS: Final = (
    Story(
        name="an approved call runs",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND),
        acts=(approves("refund"), approves("refund")),
    ),
    Story(
        name="a rejected call does not run",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND, _LOOK),
        acts=(rejects("refund", message="Not today."), approves("refund")),
    ),
    Story(
        name="edited arguments run in place of the model's",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND),
        acts=(
            approves("refund", edited="[7]"),
            approves("refund", digest="of other arguments"),
            approves("refund", edited='{"order": 8}'),
        ),
    ),
    Story(
        name="two questions are answered in the other order",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_RESERVE, _REFUND),
        acts=(approves("refund"), rejects("reserve"), approves("nothing")),
    ),
    Story(
        name="nobody answers before the deadline",
        options=options(deadline=timedelta(seconds=1)),
        first_message="go",
        runner=_runner(_RESERVE, _REFUND, _LOOK),
        acts=(TimePasses(), approves("refund")),
    ),
)

STEERING: Final = (
    Story(
        name="steering during a tool",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_PUT),
        held=frozenset({"turn-1/put"}),
        acts=(steers("be brief", "m-1"), steers("be kind", "m-2"), LetsGo("turn-1/put")),
    ),
    Story(
        name="steering rejects what waits for approval",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_LOOK, _REFUND),
        acts=(steers("rather not", "m-1"), approves("refund")),
    ),
    Story(
        name="steering that rejects nothing",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND),
        acts=(steers("by the way", "m-1", rejects=False), approves("refund")),
    ),
    Story(
        name="steering before the question is raised",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND, _RESERVE),
        held=_HELD_MODEL,
        acts=(steers("rather not", "m-1"), LetsGo("turn-1")),
    ),
    Story(
        name="steering while nothing runs",
        options=_PLAIN,
        first_message="hello",
        acts=(steers("go on", "m-1"),),
    ),
    Story(
        name="steering that meets no later model call goes ahead of the queue",
        options=_PLAIN,
        first_message="hello",
        held=_HELD_MODEL,
        acts=(says("queued", "m-1"), steers("steered", "m-2"), LetsGo("turn-1")),
    ),
    Story(
        name="steering that a failed turn took stays a message",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(_PUT), Breaks())}),
        held=frozenset({"turn-1/put"}),
        acts=(steers("be brief", "m-1"), LetsGo("turn-1/put"), says("on", "m-2")),
    ),
)

CANCELLING: Final = (
    Story(
        name="a turn that is over cannot be cancelled",
        options=_PLAIN,
        first_message="hello",
        acts=(cancels(), says("on", "m-1"), cancels()),
    ),
    Story(
        name="cancelled during the model call, with messages queued",
        options=_PLAIN,
        first_message="hello",
        held=_HELD_MODEL,
        acts=(says("next", "m-1"), says("last", "m-2"), cancels(), cancels(), LetsGo("turn-1")),
    ),
    Story(
        name="cancelled during a tool of each effect",
        options=_PLAIN,
        first_message="go",
        runner=_runner(*_EACH_EFFECT),
        held=_ALL_HELD,
        acts=(cancels(), *map(LetsGo, sorted(_ALL_HELD)), says("on", "m-1")),
    ),
    Story(
        name="cancelled during tools that no delivery claims",
        options=options(is_fenced=False),
        first_message="go",
        runner=_runner(_PAY, _LOOK),
        held=frozenset({"turn-1/pay"}),
        acts=(cancels(), LetsGo("turn-1/pay"), says("on", "m-1")),
    ),
    Story(
        name="cancelled during an approval",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_LOOK, _PAY, _REFUND, _RESERVE),
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
        options=_PLAIN,
        first_message="go",
        runner=_runner(_PAY, _LOOK),
        held=frozenset({"turn-1/pay", "turn-1/look"}),
        acts=(says("go", "m-1"), cancels(), LetsGo("turn-1/pay"), LetsGo("turn-1/look")),
    ),
    Story(
        name="cancelled, and the runner keeps what was finished",
        options=_PLAIN,
        first_message="go",
        runner=ThoroughRunner({"go": (Asks(_PUT), Asks(_LOOK, _PAY), Concludes("Never said."))}),
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

FAILURES: Final = (
    Story(
        name="a tool says that it failed",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(_LOOK, _PAY), Concludes("A pity."))},
            {"look": Refuses("no such order"), "pay": Refuses("no money")},
        ),
    ),
    Story(
        name="a tool of each effect raises at every attempt",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(*_EACH_EFFECT), Concludes("A pity."))},
            {use.tool_name: Raises() for use in _EACH_EFFECT},
        ),
    ),
    Story(
        name="a tool of each effect raises once",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(*_EACH_EFFECT), Concludes("At last."))},
            {use.tool_name: Raises(attempts=1, then=Returns("late")) for use in _EACH_EFFECT},
        ),
    ),
    Story(
        name="a model call breaks once",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Breaks(then=Concludes("At last.")),)}),
    ),
    Story(
        name="the model breaks after tools ran, and the next turn is told",
        options=_PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(_LOOK, _PAY), Breaks("no answer"))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="the model breaks, and the runner keeps what was finished",
        options=_PLAIN,
        first_message="go",
        runner=ThoroughRunner({"go": (Asks(_LOOK, _PAY), Breaks())}),
        acts=(says("on", "m-1"),),
    ),
)

QUEUE: Final = (
    Story(
        name="two queued messages have a turn each",
        options=_PLAIN,
        first_message="hello",
        held=_HELD_MODEL,
        acts=(says("one", "m-1"), says("two", "m-2"), LetsGo("turn-1")),
    ),
    Story(
        name="a queued message is taken back",
        options=_PLAIN,
        first_message="hello",
        held=_HELD_MODEL,
        acts=(
            says("one", "m-1"),
            says("two", "m-2"),
            withdraws("m-1"),
            withdraws("m-1"),
            LetsGo("turn-1"),
            withdraws("m-2"),
        ),
    ),
    Story(
        name="a message that is sent again counts once",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_LOOK),
        held=frozenset({"turn-1/look"}),
        acts=(
            says("one", "m-1"),
            says("one", "m-1"),
            steers("be brief", "m-2"),
            steers("be brief", "m-2"),
            LetsGo("turn-1/look"),
            says("one", "m-1"),
        ),
    ),
)

DEATHS: Final = (
    Story(
        name="a Worker dies during the model call",
        options=_PLAIN,
        first_message="hello",
        held=_HELD_MODEL,
        acts=(says("next", "m-1"), WorkerDies(), LetsGo("turn-1")),
    ),
    Story(
        name="a Worker dies during a tool of each effect",
        options=_PLAIN,
        first_message="go",
        runner=_runner(*_EACH_EFFECT),
        held=_ALL_HELD,
        acts=(WorkerDies(), *map(LetsGo, sorted(_ALL_HELD))),
    ),
    Story(
        name="a Worker dies while people are asked",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_REFUND, _LOOK),
        acts=(WorkerDies(), approves("refund")),
    ),
    Story(
        name="a Worker dies, and the turn is cancelled",
        options=_PLAIN,
        first_message="go",
        runner=_runner(_PUT, _PAY),
        held=frozenset({"turn-1/put", "turn-1/pay"}),
        acts=(WorkerDies(), cancels(), LetsGo("turn-1/put"), says("on", "m-1")),
    ),
)

STORIES: Final = (*TURNS, *APPROVALS, *STEERING, *CANCELLING, *FAILURES, *QUEUE, *DEATHS)
