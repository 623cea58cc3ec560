"""What watchers of a simulated session are told: each event with the Step execution and attempt that it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import field, frozen

from ..events import AgentEvent, StepMethod, TurnEvent
from ..steps import Step
from .actions import Change, Committed, Ran
from .world import World, name_of


@frozen
class Narrator:
    """Numbers executions by type, in the order in which they appear, and events by attempt."""

    _ids: dict[str, str] = field(factory=dict, init=False)
    _executions: Counter[str] = field(factory=Counter, init=False)
    _events: Counter[tuple[str, StepMethod, int]] = field(factory=Counter, init=False)

    def told(self, change: Change) -> Iterator[AgentEvent]:
        """The events of one change."""
        self._follow(change.before)
        cause = change.cause
        if isinstance(cause, Ran):
            events = tuple(TurnEvent(cause.by.turn, payload) for payload in cause.attempt.told)
            yield from self._placed(cause.by, StepMethod.EXECUTE, cause.number, events)
        elif isinstance(cause, Committed) and isinstance(cause.by, Step):
            method = StepMethod.WAIT_FOR if cause.on is None else StepMethod.EXECUTE
            yield from self._placed(cause.by, method, cause.number, cause.decided.events)
            if cause.on is not None:
                del self._ids[name_of(cause.by)]
        self._follow(change.after)

    def _placed(
        self, step: Step, method: StepMethod, attempt: int, events: tuple[TurnEvent, ...]
    ) -> Iterator[AgentEvent]:
        for event in events:
            execution = self._ids[name_of(step)]
            index = self._events[execution, method, attempt]
            self._events[execution, method, attempt] += 1
            yield AgentEvent(event.turn, execution, method, attempt, index, event.payload)

    def _follow(self, world: World) -> None:
        live = {each.name: type(each.step).__name__ for each in world.executions}
        for name in self._ids.keys() - live:
            del self._ids[name]
        for name, kind in live.items():
            if name not in self._ids:
                self._executions[kind] += 1
                self._ids[name] = f"{kind}-{self._executions[kind]}"
