"""A scenario that chance makes up: what users say, what the model asks for, and how its tools behave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from ..calls import ToolEffect
from ..ids import TurnId
from ..policy import AgentSessionOptions, CompactionPolicy, ToolPolicy
from .outside import Random
from .scenario import Act, Cancels, Says, Scenario, Steers, Withdraws
from .scripted import (
    Asks,
    Breaks,
    Concludes,
    GivesUp,
    ModelReply,
    Raises,
    Refuses,
    Returns,
    ScriptedRunner,
    ThoroughRunner,
    ToolBehaviour,
    ToolUse,
)

_UNBUILDABLE: Final = 0.05
_SKEWS: Final = tuple(timedelta(milliseconds=skew) for skew in (-999, -400, 0, 400, 999))


def scenario_of(chance: Random, *, messages: int) -> Scenario:
    """One session with so many acts of people; tool call IDs repeat from turn to turn."""
    policies = {
        f"{effect}-{number}": ToolPolicy(effect, chance.choice((None, True, False)))
        for effect in ToolEffect
        for number in range(2)
    }
    behaviours = {name: _behaviour(chance) for name in policies}
    texts = [f"message {number}" for number in range(messages)]
    kind = chance.choice((ScriptedRunner, ThoroughRunner))
    return Scenario(
        name="a random life",
        about="whatever chance makes of a session",
        runner=kind(
            {text: _turn(chance, policies) for text in texts},
            behaviours,
            frozenset(text for text in texts if chance.random() < _UNBUILDABLE),
        ),
        options=AgentSessionOptions(
            tool_policies=policies,
            interrupt_deadline=chance.choice((None, timedelta(seconds=5), timedelta(minutes=1))),
            compaction=_compaction(chance) if kind is ThoroughRunner else None,
        ),
        first_message=chance.choice((None, texts[0])),
        acts=tuple(_act(chance, number, text) for number, text in enumerate(texts[1:])),
        clock_skews=_SKEWS,
    )


def _act(chance: Random, number: int, text: str) -> Act:
    """Most say something; one in three speaks to the turn, takes something back, or stops a turn."""
    says = Says(text)
    turn = TurnId.of(1 + chance.randrange(number + 1))
    steers = Steers(text, rejects_pending_approvals=chance.random() < 0.5)
    others = (steers, steers, Withdraws(chance.randrange(number + 1)), Cancels(turn))
    return chance.choice((says, says, says, says, says, says, says, says, *others))


def _compaction(chance: Random) -> CompactionPolicy | None:
    window = chance.choice((None, 1_000, 3_000))
    kept = chance.choice((None, 0, 5))
    if window is None:
        return None
    return CompactionPolicy(context_window_tokens=window, kept_summarised_messages=kept)


def _turn(chance: Random, policies: Mapping[str, ToolPolicy]) -> tuple[ModelReply, ...]:
    ids = iter("abcdefgh")
    replies: list[ModelReply] = []
    for _ in range(chance.randrange(3)):
        names = chance.choices(sorted(policies), k=chance.randint(1, 3))
        asks = Asks(*(ToolUse(next(ids), name, f'{{"n":{chance.randrange(9)}}}') for name in names))
        replies.append(chance.choice((asks, asks, Breaks(attempts=1, then=asks))))
    end = Concludes("That was all.")
    return (*replies, chance.choice((end, end, Breaks(attempts=2, then=end), Breaks(), GivesUp())))


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
