"""What watchers of a simulated session hear: each event with the Step execution and attempt that it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import field, frozen

from ..events import AgentEvent
from ..steps import Step
from .actions import Committed, Edge
from .engine import Engine
from .world import World, name_of


@frozen
class Narrator:
    """Numbers executions by type, in the order in which they appear, and the events of each attempt."""

    engine: Engine
    _ids: dict[str, str] = field(factory=dict, init=False)
    _executions: Counter[str] = field(factory=Counter, init=False)

    def hear(self, before: World, edge: Edge) -> Iterator[AgentEvent]:
        """What is told as ``edge`` is taken from ``before``."""
        self._follow(before)
        telling = edge.telling
        if telling is not None:
            execution = self._ids[telling.name]
            for index, event in enumerate(self.engine.told_by(telling)):
                yield AgentEvent(
                    event.turn,
                    execution,
                    telling.phase.method,
                    telling.attempt,
                    index,
                    event.payload,
                )
        for change in edge.changes:
            cause = change.cause
            if isinstance(cause, Committed) and isinstance(cause.by, Step) and cause.on:
                self._ids.pop(name_of(cause.by), None)
        self._follow(edge.world)

    def _follow(self, world: World) -> None:
        live = {each.name: type(each.step).__name__ for each in world.executions}
        for name in self._ids.keys() - live:
            del self._ids[name]
        for name, kind in live.items():
            if name not in self._ids:
                self._executions[kind] += 1
                self._ids[name] = f"{kind}-{self._executions[kind]}"
