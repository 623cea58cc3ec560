"""What a search or a random life came to, in lines for a person: what broke, the way there, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .explorer import Exploration, Finding
from .lives import Life

MODULE: Final = "python -m dex_agents_model.simulation"


def lines_of(seen: Exploration) -> Iterator[str]:
    """One line, and the trace of each broken invariant behind it."""
    frontier = "frontier empty" if seen.is_complete else "frontier cut"
    yield f"{seen.scenario}: {seen.states} distinct states, {seen.edges} edges, {frontier}"
    for finding in seen.findings:
        yield from lines_of_finding(finding, replay_command(seen, finding))


def sums_of(all_seen: Iterable[Exploration]) -> str:
    """The last line: all searches together."""
    searches = tuple(all_seen)
    states = sum(seen.states for seen in searches)
    edges = sum(seen.edges for seen in searches)
    seconds = sum(seen.seconds for seen in searches)
    broken = sum(len(seen.findings) for seen in searches)
    return (
        f"{len(searches)} scenarios: {states} distinct states, {edges} edges,"
        f" {seconds:.1f} seconds, {broken} broken promises"
    )


def lines_of_finding(finding: Finding, again: str) -> Iterator[str]:
    """What broke, every step of the way, and ``again``: how to see it once more."""
    yield f"  BROKEN: {finding.invariant}: {finding.complaint}"
    for number, line in enumerate(finding.trace, start=1):
        yield f"  {number:4}. {line}"
    yield f"  again: {again}"


def replay_command(seen: Exploration, finding: Finding) -> str:
    """The command that walks the way of ``finding`` once more."""
    choices = ".".join(map(str, finding.choices))
    return f"{MODULE} replay {seen.scenario} {choices} --faults {seen.faults.at_most}"


def lines_of_life(life: Life) -> Iterator[str]:
    """One line; when something broke, the latest actions and the command that lives the life again."""
    yield (
        f"seed {life.seed}: {life.turns} turns, {life.actions} actions, {life.faults} faults,"
        f" {'BROKEN' if life.broken else 'every promise kept'}"
    )
    if life.broken:
        yield f"  BROKEN: {life.broken}"
        first = life.actions - len(life.last) + 1
        for number, line in enumerate(life.last, start=first):
            yield f"  {number:4}. {line}"
        yield f"  again: {MODULE} live {life.seed}"
