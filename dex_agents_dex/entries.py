"""Entries of a session's maps by exact keys, as many at a time as an answer of Dex may hold.

A Step that needs more than Dex loads for it asks its own session for the rest, and so does a
client. What is asked for so never changes while it is needed: stored messages, tool calls that are
final, the run state that waits for the one Step that replaces it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, cast

import dex
from attrs import frozen

from dex_agents_model.errors import StateCorrupt
from dex_agents_model.layout import (
    APPROVAL_ENTRY_BYTES,
    CALL_ENTRY_BYTES,
    MESSAGE_ENTRY_BYTES,
    PART_BYTES,
    REQUEST_IDS_ENTRY_BYTES,
    RUN_STATE_PART_BYTES,
)
from dex_agents_model.records import ApprovalRecord, HistorySummary, TakenSteering
from dex_agents_model.requests import MAX_READ_BYTES, MAX_STEERING_BYTES

from .codec import REQUEST_IDS, EntryCodec, RecordCodec
from .entry_texts import ReadEntries, StoredTexts
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVALS,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    TAKEN_REQUEST_IDS,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
)

K = TypeVar("K", bound=str)
V = TypeVar("V")

_CLAIM_BYTES: Final = 8 * 1024


@frozen
class _Readable:
    """A map that can be read by pages, of whose entries none is larger than ``entry_bytes``."""

    entries: dex.AttributeMap[Any]
    entry_bytes: int
    codec: dex.Codec[Any] | None = None
    """None for a map of text."""

    @property
    def at_once(self) -> int:
        return MAX_READ_BYTES // self.entry_bytes

    def text(self, value: Any) -> str:
        return cast("str", value if self.codec is None else self.codec.encode(value).data)

    def value(self, text: str) -> Any:
        if self.codec is None:
            return text
        return self.codec.decode(dex.Value(dex.WireKind.JSON, text))


_READABLE: Final[Mapping[str, _Readable]] = MappingProxyType(
    {
        each.entries.name: each
        for each in (
            _Readable(AGENT_MESSAGES, MESSAGE_ENTRY_BYTES, EntryCodec()),
            _Readable(AGENT_MESSAGE_PARTS, PART_BYTES),
            _Readable(AGENT_TOOL_CALLS, CALL_ENTRY_BYTES, EntryCodec()),
            _Readable(AGENT_TOOL_CALL_PARTS, PART_BYTES),
            _Readable(TOOL_CALL_CLAIMS, _CLAIM_BYTES),
            _Readable(FRAMEWORK_RUN_STATE, RUN_STATE_PART_BYTES),
            _Readable(TAKEN_STEERING, MAX_STEERING_BYTES, RecordCodec(TakenSteering)),
            _Readable(TAKEN_REQUEST_IDS, REQUEST_IDS_ENTRY_BYTES, RecordCodec(REQUEST_IDS)),
            _Readable(APPROVALS, APPROVAL_ENTRY_BYTES, RecordCodec(ApprovalRecord)),
            _Readable(HISTORY_SUMMARY, MAX_READ_BYTES, RecordCodec(HistorySummary)),
        )
    }
)


Ask: TypeAlias = Callable[["dex.AttributeMap[Any]", ReadEntries], Awaitable[StoredTexts]]
"""How a session is asked for entries of a map."""


def texts_of(context: dex.Context, request: ReadEntries) -> StoredTexts:
    """The answer to ``request``; Dex has loaded the entries that it names."""
    readable = _READABLE[request.map_name]
    values = (readable.entries.get(context, key) for key in request.keys)
    return StoredTexts(tuple(None if value is None else readable.text(value) for value in values))


@frozen
class Entries:
    """Reads entries: those that Dex loaded for an invocation, when there is one, else by asking."""

    ask: Ask
    context: dex.Context | None = None

    async def stored(self, entries: dex.AttributeMap[V], keys: Iterable[K]) -> dict[K, V]:
        """The entries under ``keys`` that are stored."""
        found: dict[K, V] = {}
        missing: list[K] = []
        for key in keys:
            if self.context is None:
                missing.append(key)
                continue
            try:
                value: V | None = entries.get(self.context, key)
            except dex.AttributeMapNotLoadedError:
                missing.append(key)
            else:
                if value is not None:
                    found[key] = value
        readable = _READABLE[entries.name]
        for start in range(0, len(missing), readable.at_once):
            page = tuple(missing[start : start + readable.at_once])
            told = await self.ask(entries, ReadEntries(entries.name, page))
            for key, text in zip(page, told.texts, strict=True):
                if text is not None:
                    found[key] = cast("V", readable.value(text))
        return found

    async def all(self, entries: dex.AttributeMap[V], keys: Iterable[K]) -> dict[K, V]:
        """The entries under ``keys``, in this order.

        Raises:
            StateCorrupt: one is not stored.
        """
        wanted = tuple(keys)
        found = await self.stored(entries, wanted)
        lost = [key for key in wanted if key not in found]
        if lost:
            raise StateCorrupt(f"{entries.name} lacks the entries {lost}")
        return {key: found[key] for key in wanted}
