"""Turns that nobody disturbs, and messages that wait for theirs."""

from __future__ import annotations

from typing import Final

from dex_agents_model import CompactionPolicy
from dex_agents_model.effects import HistorySummarized
from dex_agents_model.runner import SummaryRequest
from dex_agents_model.simulation import (
    Asks,
    Concludes,
    Returns,
    ScriptedFailure,
    ScriptedRunner,
    ThoroughRunner,
)

from ..story import LetsGo, Story, approves, options, rejects, says, steers, withdraws
from .cast import EACH_EFFECT, HELD_MODEL, LOOK, PAY, PLAIN, POKE, PUT, REFUND, asking

SMALL_WINDOW: Final = CompactionPolicy(
    context_window_tokens=1000, trigger_ratio=0.5, keep_recent_tokens=0
)


class ForgetfulRunner(ThoroughRunner):
    """A scripted runner that never gets a summary made."""

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        raise ScriptedFailure("no summary")


TURNS: Final = (
    Story(name="an answer", options=PLAIN, first_message="hello"),
    Story(
        name="no first message, and blank ones are refused",
        options=PLAIN,
        acts=(says(" \n", "m-1"), steers("", "m-2"), says("hello", "m-3")),
    ),
    Story(
        name="a tool of each effect at once",
        options=PLAIN,
        first_message="go",
        runner=asking(*EACH_EFFECT),
    ),
    Story(
        name="tools in three rounds",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner(
            {"go": (Asks(LOOK), Asks(PUT, PAY), Asks(POKE), Concludes("Three rounds."))}
        ),
    ),
    Story(
        name="a tool call ID comes back in a later turn",
        options=PLAIN,
        first_message="go",
        runner=asking(PAY, REFUND),
        acts=(
            approves("refund"),
            says("go", "m-1"),
            approves("refund"),
            rejects("refund", turn="turn-2"),
        ),
    ),
    Story(
        name="a tool call ID repeats within a turn",
        options=PLAIN,
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(LOOK), Asks(LOOK))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="a runaway turn meets the limit of model calls",
        options=options(model_calls=2),
        first_message="go",
        runner=ScriptedRunner({"go": (Asks(LOOK), Asks(PAY), Asks(POKE))}),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="a response has more arguments than fit",
        options=options(argument_bytes=20),
        first_message="go",
        runner=asking(LOOK, PUT),
        acts=(says("on", "m-1"),),
    ),
    Story(
        name="earlier turns are summarised",
        options=options(compaction=SMALL_WINDOW),
        first_message="hello " * 200,
        runner=ThoroughRunner(
            {"go": (Asks(LOOK), Concludes("Found."))}, {"look": Returns("x" * 1500)}
        ),
        acts=(says("again " * 200, "m-1"), says("go", "m-2"), says("hello", "m-3")),
    ),
    Story(
        name="a turn goes on without the summary that fails",
        options=options(compaction=SMALL_WINDOW),
        first_message="hello " * 200,
        runner=ForgetfulRunner(),
        acts=(says("again " * 50, "m-1"),),
    ),
)

QUEUE: Final = (
    Story(
        name="two queued messages have a turn each",
        options=PLAIN,
        first_message="hello",
        held=HELD_MODEL,
        acts=(says("one", "m-1"), says("two", "m-2"), LetsGo("turn-1")),
    ),
    Story(
        name="a queued message is taken back",
        options=PLAIN,
        first_message="hello",
        held=HELD_MODEL,
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
        options=PLAIN,
        first_message="go",
        runner=asking(LOOK),
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
