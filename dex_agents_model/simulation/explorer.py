"""Exhaustive search: every interleaving of a scenario, each distinct world once, until no world is left to look at."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final

from attrs import frozen

from .actions import Change
from .engine import Engine
from .faults import ONE_FAULT, Faults
from .invariants import INVARIANTS, Invariant, named
from .memory import uncollected
from .outside import perf_counter
from .progress import why_it_must_not_rest
from .scenario import Scenario
from .world import World

_NOBODY: Final = -1


@frozen
class Finding:
    """A promise that does not hold, and the shortest way there.

    ``choices`` picks, from the beginning, one of the edges at a time: `replay` takes it.
    """

    invariant: str
    complaint: str
    trace: tuple[str, ...]
    choices: tuple[int, ...]


@frozen(kw_only=True)
class Exploration:
    """What a search saw. ``is_complete`` says that the frontier is empty: there is nothing else to see."""

    scenario: str
    faults: Faults
    states: int
    edges: int
    seconds: float
    is_complete: bool
    findings: tuple[Finding, ...]


def explore(
    scenario: Scenario,
    *,
    faults: Faults = ONE_FAULT,
    invariants: tuple[Invariant, ...] = INVARIANTS,
    max_states: int | None = None,
    stop_at: str | None = None,
) -> Exploration:
    """Every world that ``scenario`` can come to, breadth first; a broken one is not looked behind.

    Of each broken invariant the shortest way is kept. When nothing is broken and the search is
    complete, every world must also be able to come to rest without help. ``stop_at`` names the
    invariant with which, once broken, the search may end.
    """
    search = _Search(Engine(scenario, faults), invariants)
    start = perf_counter()
    with uncollected():
        is_complete = search.run(max_states, stop_at)
        if is_complete and not search.findings:
            search.find_worlds_that_never_rest()
    return Exploration(
        scenario=scenario.name,
        faults=faults,
        states=search.states,
        edges=search.edges,
        seconds=perf_counter() - start,
        is_complete=is_complete,
        findings=tuple(search.findings.values()),
    )


def replay(
    scenario: Scenario, choices: tuple[int, ...], *, faults: Faults = ONE_FAULT
) -> tuple[tuple[str, ...], World]:
    """The lines of the trace that ``choices`` pick, and the world that they lead to.

    Raises:
        ValueError: there is no such way.
    """
    return walk(Engine(scenario, faults), choices)


class _Search:
    def __init__(self, engine: Engine, invariants: tuple[Invariant, ...]) -> None:
        self._engine = engine
        self._invariants = invariants
        self.edges = 0
        self.findings: dict[str, Finding] = {}
        self._seen: dict[World, tuple[int, int]] = {}
        self._parents = array("q")
        self._choices = array("H")
        self._progress_from, self._progress_to = array("L"), array("L")
        self._resting = array("L")

    @property
    def states(self) -> int:
        """How many worlds were seen that differ in more than the faults that are left."""
        return len(self._seen)

    def run(self, max_states: int | None, stop_at: str | None) -> bool:
        """Whether the frontier became empty."""
        begin = self._engine.begin()
        frontier = deque([(begin, self._met(begin, _NOBODY, 0)[0])])
        while frontier:
            if max_states is not None and self.states > max_states:
                return False
            if stop_at in self.findings:
                return False
            frontier.extend(self._behind(*frontier.popleft()))
        return True

    def _behind(self, world: World, number: int) -> list[tuple[World, int]]:
        new: list[tuple[World, int]] = []
        rests = True
        for choice, edge in enumerate(self._engine.edges(world)):
            self.edges += 1
            if not edge.action.is_fate:
                rests = False
            if edge.changes and self._is_broken(edge.changes, number, choice):
                continue
            known, is_new = self._met(edge.world, number, choice)
            if is_new:
                new.append((edge.world, known))
            if not edge.action.is_fate:
                self._progress_from.append(number)
                self._progress_to.append(known)
        if rests:
            self._resting.append(number)
            for complaint in why_it_must_not_rest(world):
                self._report("a resting session waits for people", complaint, number)
        return new

    def find_worlds_that_never_rest(self) -> None:
        """Walk back from every resting world; what is not met can go on for ever without help."""
        sources: dict[int, list[int]] = {}
        for source, target in zip(self._progress_from, self._progress_to, strict=True):
            sources.setdefault(target, []).append(source)
        can_rest = bytearray(len(self._parents))
        found = list(self._resting)
        while found:
            number = found.pop()
            if not can_rest[number]:
                can_rest[number] = True
                found += sources.get(number, ())
        first = can_rest.find(0)
        if first >= 0:
            self._report("every session comes to rest", "from here on it never rests", first)

    def _met(self, world: World, parent: int, choice: int) -> tuple[int, bool]:
        """The number of ``world``, and whether it is to be looked behind.

        One that was met before with as many faults left or more is not: whatever can happen from here
        on can happen from there, and the faults that are left are all that the two differ in.
        """
        but_for_faults = world._replace(faults_left=0)
        number, faults_left = self._seen.get(but_for_faults, (_NOBODY, -1))
        if faults_left >= world.faults_left:
            return number, False
        number = len(self._parents)
        self._seen[but_for_faults] = (number, world.faults_left)
        self._parents.append(parent)
        self._choices.append(choice)
        return number, True

    def _is_broken(self, changes: tuple[Change, ...], number: int, choice: int) -> bool:
        broken = False
        for change in changes:
            for invariant in self._invariants:
                for complaint in invariant(change):
                    broken = True
                    self._report(named(invariant), complaint, number, choice)
        return broken

    def _report(self, invariant: str, complaint: str, number: int, *behind: int) -> None:
        if invariant in self.findings:
            return
        choices = list(behind)
        while self._parents[number] != _NOBODY:
            choices.append(self._choices[number])
            number = self._parents[number]
        way = tuple(reversed(choices))
        self.findings[invariant] = Finding(invariant, complaint, walk(self._engine, way)[0], way)


def walk(engine: Engine, choices: tuple[int, ...]) -> tuple[tuple[str, ...], World]:
    """The lines of the way that ``choices`` pick, and the world at its end.

    Raises:
        ValueError: the way is not one of this scenario with these faults.
    """
    world = engine.begin()
    lines: list[str] = []
    for choice in choices:
        ahead = list(engine.edges(world))
        if choice >= len(ahead):
            raise ValueError(
                f"step {len(lines) + 1} of the way takes choice {choice} of {len(ahead)}:"
                " walk it with the scenario, the rules and the number of faults that it was found with"
            )
        edge = ahead[choice]
        world = edge.world
        lines.append(str(edge.action))
    return tuple(lines), world
