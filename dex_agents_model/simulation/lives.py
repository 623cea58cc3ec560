"""Long random lives of a session: people, faults, a clock that jumps; then peace, and progress is due.

A life is a function of its seed: the same seed is the same life, on every machine.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Final

from attrs import frozen

from .actions import Action, Does, Edge
from .engine import Engine
from .faults import Faults
from .invariants import INVARIANTS, Invariant, named
from .memory import uncollected
from .narrator import Narrator
from .outside import Random
from .progress import why_it_must_not_rest
from .random_scenario import scenario_of
from .scenario import Scenario
from .stored import state_in
from .waiting import after_time
from .watcher import Watcher
from .world import World

_MS: Final = timedelta(milliseconds=1)
_SHOWN_ACTIONS: Final = 60
_ACTIONS_A_TURN: Final = 30


@frozen(kw_only=True)
class Odds:
    """How a life goes. Shares are out of all actions; ``longest_jump`` is of the clock."""

    faults: float = 0.1
    answers: float = 0.1
    late_answers: float = 0.1
    jumps: float = 0.01
    longest_jump: timedelta = timedelta(minutes=3)


@frozen(kw_only=True)
class Life:
    """How one life went. ``broken`` says what broke, and then ``last`` are the latest actions; else None."""

    seed: int
    actions: int
    faults: int
    turns: int
    broken: str | None
    last: tuple[str, ...]


def simulate(
    seed: int,
    *,
    scenario: Scenario | None = None,
    actions: int = 1000,
    odds: Odds | None = None,
    invariants: tuple[Invariant, ...] = INVARIANTS,
    peace_within: int = 10_000,
) -> Life:
    """One life of ``actions`` random actions; then no fault strikes, and people answer what they are asked.

    Within ``peace_within`` further actions every turn must have ended and every message must have
    been taken. Without a ``scenario`` the seed makes one up, runner and all.
    """
    chance = Random(seed)
    life = _Life(
        scenario or scenario_of(chance, messages=max(2, actions // _ACTIONS_A_TURN)),
        odds or Odds(),
        chance,
        invariants,
    )
    with uncollected():
        broken = life.lived(actions) or life.healed(peace_within)
    state = state_in(life.world.records)
    return Life(
        seed=seed,
        actions=life.actions,
        faults=life.faults,
        turns=0 if state is None else state.turn_count,
        broken=broken,
        last=tuple(map(str, life.last)) if broken else (),
    )


class _Life:
    def __init__(
        self,
        scenario: Scenario,
        odds: Odds,
        chance: Random,
        invariants: tuple[Invariant, ...],
    ) -> None:
        self._scenario, self._odds, self._chance = scenario, odds, chance
        self._invariants = invariants
        self._engine = Engine(scenario, Faults(at_most=1_000_000_000))
        self._watcher = Watcher(Narrator(self._engine))
        self.world: World = self._engine.begin()
        self.actions = 0
        self.faults = 0
        self.last: deque[Action] = deque(maxlen=_SHOWN_ACTIONS)

    def lived(self, actions: int) -> str | None:
        """What broke, if something did."""
        for _ in range(actions):
            edge = self._next()
            if edge is None:
                return None
            if (broken := self._taken(edge)) is not None:
                return broken
        return None

    def healed(self, within: int) -> str | None:
        """What broke or does not end, now that no fault strikes and people answer."""
        for _ in range(within):
            ahead = [edge for edge in self._engine.edges(self.world) if self._is_peaceful(edge)]
            if not ahead:
                ahead = self._answers(late=False)
            if not ahead:
                return next(why_it_must_not_rest(self.world), None)
            if (broken := self._taken(self._chance.choice(ahead))) is not None:
                return broken
        return (
            f"no progress: the session has not come to rest {within} actions after the last fault"
        )

    def _next(self) -> Edge | None:
        """One thing that can happen, by the odds; None when nothing can."""
        odds, roll = self._odds, self._chance.random()
        if roll < odds.jumps:
            jump = self._chance.randrange(odds.longest_jump // _MS)
            later = after_time(self.world, self.world.now_ms + jump)
            return Edge(Action(f"the clock jumps by {jump} ms", Does.WAIT, is_fate=True), later)
        ahead = list(self._engine.edges(self.world))
        faults = [edge for edge in ahead if not isinstance(edge.action.does, Does)]
        sound = [edge for edge in ahead if isinstance(edge.action.does, Does)]
        if faults and self._chance.random() < odds.faults:
            return self._chance.choice(faults)
        if self._chance.random() < odds.answers:
            late = self._chance.random() < odds.late_answers
            sound = self._answers(late=late) or sound
        return self._chance.choice(sound) if sound else None

    def _answers(self, *, late: bool) -> list[Edge]:
        """Answers that people can send now: to what is asked, or to what was ever asked."""
        approved = self._chance.random() < 0.6
        skew = self._chance.choice(self._scenario.clock_skews)
        callers = self._engine.callers
        return list(callers.answers(self.world, approved=approved, late=late, skew=skew))

    def _taken(self, edge: Edge) -> str | None:
        self.actions += 1
        self.faults += not isinstance(edge.action.does, Does)
        self.last.append(edge.action)
        before, self.world = self.world, edge.world
        for complaint in self._watcher.watch(before, edge):
            return f"events never lie: {complaint}"
        for change in edge.changes:
            for invariant in self._invariants:
                for complaint in invariant(change):
                    return f"{named(invariant)}: {complaint}"
        return None

    def _is_peaceful(self, edge: Edge) -> bool:
        return not edge.action.is_fate or edge.action.does is Does.SEND
