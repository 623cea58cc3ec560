"""A watcher of a simulated session: folds what it hears, and compares it with what is stored once a turn has ended."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from ..events import AgentEvent, TurnCompletedEvent
from ..folding import LiveTurn, fold_event
from ..records import MessageRole
from .actions import Edge
from .narrator import Narrator
from .stored import messages_in
from .world import World


@define
class Watcher:
    """Events never lie: each turn's end is told, once its end is durable, and its text is the text that is stored."""

    _narrator: Narrator
    _live: LiveTurn = field(factory=LiveTurn, init=False)

    def watch(self, before: World, edge: Edge) -> Iterator[str]:
        """What was told, as ``edge`` was taken, that is not so: a sentence each."""
        for event in self._narrator.hear(before, edge):
            had_ended = self._live.ended
            self._live = fold_event(self._live, event)
            if self._live.lost:
                yield f"events of {event.turn_id} are missing before {event}"
            if self._live.ended is not None and self._live.ended is not had_ended:
                yield from self._compare(before, event)

    def _compare(self, world: World, event: AgentEvent) -> Iterator[str]:
        """The end of a turn is told: by then its messages are stored."""
        if not isinstance(event.payload, TurnCompletedEvent):
            return
        stored = "".join(
            message.text or ""
            for message in messages_in(world.records)
            if message.turn_id == event.turn_id
            and message.role is MessageRole.ASSISTANT
            and message.tool_call_id is None
        )
        if self._live.texts and self._live.text != stored:
            yield f"{event.turn_id} was told as {self._live.text!r} and is stored as {stored!r}"
