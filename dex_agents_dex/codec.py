"""How the model's records become Dex Values. The form itself is the model's (`wire`, `layout`)."""

from __future__ import annotations

import json
from typing import Any, Final, Generic, TypeVar, cast

import dex
from attrs import frozen

from dex_agents_model import wire
from dex_agents_model.layout import Entry
from dex_agents_model.records import (
    AgentInterrupt,
    AgentState,
    AgentUsage,
    AgentUserMessage,
    ApprovalRecord,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
)
from dex_agents_model.requests import (
    AgentMessagesPage,
    AgentSnapshot,
    QueuedMessagesPage,
)
from dex_agents_model.table import RPCS, SPECS

from .entry_texts import (
    ForgetEntries,
    ReadEntries,
    ReadWaiting,
    StoredTexts,
    StoredTextsCodec,
)
from .event_message import EventMessage, EventMessageCodec
from .json_text import json_text
from .turn_trace import TurnTrace

T = TypeVar("T")


@frozen
class RecordCodec(Generic[T]):
    """A record, a union of records or a tuple of one, as versioned JSON."""

    shape: type[T]
    wire_kind: dex.WireKind = dex.WireKind.JSON

    @property
    def type_name(self) -> str:
        return getattr(self.shape, "__name__", str(self.shape))

    def encode(self, value: T) -> dex.Value:
        return dex.Value(dex.WireKind.JSON, json_text(wire.dump(value, self.shape)))

    def decode(self, value: dex.Value) -> T:
        return wire.load(_parsed(value), self.shape)


@frozen
class EntryCodec:
    """An entry of a map, whose data the model has laid out."""

    type_name: str = "Entry"
    wire_kind: dex.WireKind = dex.WireKind.JSON

    def encode(self, value: Entry) -> dex.Value:
        return dex.Value(dex.WireKind.JSON, json_text(value.data))

    def decode(self, value: dex.Value) -> Entry:
        return Entry(cast("dict[str, wire.JsonData]", _parsed(value)))


def _parsed(value: dex.Value) -> object:
    if not isinstance(value.data, str):
        raise TypeError(f"a JSON value was expected, not {value.kind}")
    return json.loads(value.data)


INTERRUPTS: Final = tuple[AgentInterrupt, ...]
REQUEST_IDS: Final = tuple[str, ...]
SIGNAL: Final = cast("type[wire.TurnSignal]", wire.TurnSignal)
STATE: Final = cast("type[AgentState]", AgentState)

_STORED: Final[tuple[Any, ...]] = (
    STATE,
    INTERRUPTS,
    REQUEST_IDS,
    AgentUsage,
    AgentUserMessage,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
    SIGNAL,
    ApprovalRecord,
    TurnTrace,
    AgentSnapshot,
    AgentMessagesPage,
    QueuedMessagesPage,
    ReadEntries,
    ReadWaiting,
    ForgetEntries,
    *(entry.step for entry in SPECS),
    *(entry.request for entry in RPCS),
)


def codec_registry() -> dex.CodecRegistry:
    """The codecs of everything that a session stores, sends or is asked."""
    codecs: dict[object, dex.Codec[Any]] = {shape: RecordCodec(shape) for shape in _STORED}
    codecs[Entry] = EntryCodec()
    codecs[StoredTexts] = StoredTextsCodec()
    codecs[EventMessage] = EventMessageCodec()
    return dex.CodecRegistry(codecs)
