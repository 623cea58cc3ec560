"""What one message of the Stream AgentEvents holds: events of one attempt, in the order in which they were told."""

from __future__ import annotations

import json
from collections.abc import Iterable

import dex
from attrs import frozen

from dex_agents_model import wire
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import AgentEvent

from .json_text import json_text


def event_text(event: AgentEvent) -> str:
    """One event as JSON; it has its version with it, as everything that is stored."""
    return json_text(wire.dump(event, AgentEvent))


@frozen
class EventMessage:
    """``text`` is a JSON list of events, at least one."""

    text: str

    @classmethod
    def of(cls, event_texts: Iterable[str]) -> EventMessage:
        """The message of these events, each as `event_text` writes it."""
        return cls(f"[{','.join(event_texts)}]")

    def events(self) -> tuple[AgentEvent, ...]:
        """The events.

        Raises:
            StateCorrupt: the text has another form, or a later version than this release knows.
        """
        data: object = json.loads(self.text)
        if not isinstance(data, list) or not data:
            raise StateCorrupt(f"a message of events is no JSON list of them: {data!r:.200}")
        return tuple(wire.load(each, AgentEvent) for each in data)


@frozen
class EventMessageCodec:
    """The text, as it is."""

    type_name: str = "EventMessage"
    wire_kind: dex.WireKind = dex.WireKind.JSON

    def encode(self, value: EventMessage) -> dex.Value:
        return dex.Value(dex.WireKind.JSON, value.text)

    def decode(self, value: dex.Value) -> EventMessage:
        if not isinstance(value.data, str):
            raise TypeError(f"a JSON value was expected, not {value.kind}")
        return EventMessage(value.data)
