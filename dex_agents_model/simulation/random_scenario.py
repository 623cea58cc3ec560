"""A scenario that chance makes up: what users say, what the model asks for, and how its tools behave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from ..calls import ToolEffect
from ..policy import AgentSessionOptions, ToolPolicy
from .outside import Random
from .scenario import Says, Scenario
from .scripted import (
    Asks,
    Breaks,
    Concludes,
    ModelReply,
    Raises,
    Refuses,
    Returns,
    ScriptedRunner,
    ToolBehaviour,
    ToolUse,
)

_SKEWS: Final = tuple(timedelta(milliseconds=skew) for skew in (-999, -400, 0, 400, 999))


def scenario_of(chance: Random, *, messages: int) -> Scenario:
    """One session, in which users say so many ``messages``; tool call IDs repeat from turn to turn."""
    policies = {
        f"{effect}-{number}": ToolPolicy(effect, chance.choice((None, True, False)))
        for effect in ToolEffect
        for number in range(2)
    }
    behaviours = {name: _behaviour(chance) for name in policies}
    texts = [f"message {number}" for number in range(messages)]
    deadline = chance.choice((None, timedelta(seconds=5), timedelta(minutes=1)))
    return Scenario(
        name="a random life",
        about="whatever chance makes of a session",
        runner=ScriptedRunner({text: _turn(chance, policies) for text in texts}, behaviours),
        options=AgentSessionOptions(tool_policies=policies, interrupt_deadline=deadline),
        first_message=chance.choice((None, texts[0])),
        acts=tuple(map(Says, texts[1:])),
        clock_skews=_SKEWS,
    )


def _turn(chance: Random, policies: Mapping[str, ToolPolicy]) -> tuple[ModelReply, ...]:
    ids = iter("abcdefgh")
    replies: list[ModelReply] = []
    for _ in range(chance.randrange(3)):
        names = chance.choices(sorted(policies), k=chance.randint(1, 3))
        asks = Asks(*(ToolUse(next(ids), name, f'{{"n":{chance.randrange(9)}}}') for name in names))
        replies.append(chance.choice((asks, asks, Breaks(attempts=1, then=asks))))
    end = Concludes("That was all.")
    return (*replies, chance.choice((end, end, Breaks(attempts=2, then=end), Breaks())))


def _behaviour(chance: Random) -> ToolBehaviour:
    return chance.choice(
        (
            Returns("done"),
            Returns("done"),
            Refuses("not today"),
            Raises(attempts=1, then=Returns("done at last")),
            Raises(),
        )
    )
