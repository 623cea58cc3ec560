"""How records lie in storage: one small entry each, and text that is too long for it in parts beside it.

An engine moves whole entries in frames of limited size, so an entry is small whatever it holds, and
its key is known from the session's state: whoever needs many can ask for as many at a time as fit.
An entry keeps the start of a text that lies apart, so that whoever only shows or names a
record need not load its parts. Both ports store through this file, so both have the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, TypedDict, cast

from attrs import frozen

from .calls import AgentToolCall, FinalCall, ToolCallStatus
from .errors import StateCorrupt
from .records import AgentMessage
from .requests import KEPT_REQUEST_IDS
from .text import MAX_ID_BYTES, keep_bytes, shorten, size_bytes
from .wire import JsonData, dump, load

PART_BYTES: Final = 256 * 1024
RUN_STATE_PART_BYTES: Final = 32 * 1024
INLINE_TEXT_BYTES: Final = 2 * 1024
INLINE_MESSAGE_TEXT_BYTES: Final = 16 * 1024
"""The longest text that stands in an entry, as JSON: any, and those that make up a message."""

MESSAGE_ENTRY_BYTES: Final = 80 * 1024
CALL_ENTRY_BYTES: Final = 40 * 1024
APPROVAL_ENTRY_BYTES: Final = 32 * 1024
"""No entry is larger, whatever its record holds."""

_START_BYTES: Final = 1024
_JSON_GROWS_BY: Final = 6  # a control character becomes six
_MESSAGE_TEXTS: Final = ("framework_item", "text", "output")
_CALL: Final = cast("type[AgentToolCall]", AgentToolCall)


class _TextApart(TypedDict):
    parts: list[str]
    start: str


@frozen
class Entry:
    """One entry of a map as it is stored: a record's JSON data, with its long texts apart."""

    data: Mapping[str, JsonData]

    def part_keys(self) -> tuple[str, ...]:
        """The keys of all parts that belong to this entry."""
        return tuple(key for text in self._apart().values() for key in text["parts"])

    def joined(self, parts: Mapping[str, str]) -> dict[str, JsonData]:
        """The record's data, whole.

        Raises:
            StateCorrupt: ``parts`` lacks one that belongs to this entry.
        """
        missing = [key for key in self.part_keys() if key not in parts]
        if missing:
            raise StateCorrupt(f"the parts {missing} of a stored record are missing")
        whole = {
            name: "".join(parts[key] for key in text["parts"])
            for name, text in self._apart().items()
        }
        return {**self.data, **whole}

    def shortened(self) -> dict[str, JsonData]:
        """The record's data, of each text that lies apart only its start."""
        return {**self.data, **{name: text["start"] for name, text in self._apart().items()}}

    def _apart(self) -> Mapping[str, _TextApart]:
        return {
            name: cast("_TextApart", value)
            for name, value in self.data.items()
            if isinstance(value, dict) and "parts" in value
        }


@frozen
class Laid:
    """What is to be stored for one record: its entry, and the parts that are new or changed."""

    entry: Entry
    parts: Mapping[str, str]


def message_key(sequence: int) -> str:
    """The key of a stored message: 12 digits, so that keys sort as sequences do."""
    return f"{sequence:012d}"


def request_ids_key(request_id: str) -> str:
    """The key under which ``request_id`` is kept once it was taken, with the others that share it."""
    return sha256(request_id.encode("utf-8", "surrogatepass")).hexdigest()[0]


REQUEST_IDS_KEYS: Final = tuple("0123456789abcdef")
"""Every key that `request_ids_key` may give."""
REQUEST_IDS_ENTRY_BYTES: Final = KEPT_REQUEST_IDS * (_JSON_GROWS_BY * MAX_ID_BYTES + 3) + 1


def approval_key(number: int) -> str:
    """The key of the session's ``number``-th decision about a tool call, from 0."""
    return f"{number:012d}"


def steering_key(number: int) -> str:
    """The key of the steering message that the running turn took up as its ``number``-th, from 0."""
    return f"{number:06d}"


def lay_message(message: AgentMessage) -> Laid:
    """``message`` for storage."""
    return _lay(dump(message, AgentMessage), message_key(message.sequence), _MESSAGE_TEXTS)


def read_message(entry: Entry, parts: Mapping[str, str]) -> AgentMessage:
    """The message that `lay_message` laid."""
    return load(entry.joined(parts), AgentMessage)


def lay_tool_call(record: AgentToolCall) -> Laid:
    """``record`` for storage. The arguments of a final call were stored while it was open."""
    laid = _lay_call(record)
    if not isinstance(record, FinalCall):
        return laid
    prefix = _prefix("arguments", record.tool_call_id)
    return Laid(
        laid.entry, {key: part for key, part in laid.parts.items() if not key.startswith(prefix)}
    )


def read_tool_call(entry: Entry, parts: Mapping[str, str]) -> AgentToolCall:
    """The record that `lay_tool_call` laid, whole."""
    return load(entry.joined(parts), _CALL)


def read_shortened_tool_call(entry: Entry) -> AgentToolCall:
    """The record that `lay_tool_call` laid, its long texts shortened: to show or to name, never to store."""
    return load(entry.shortened(), _CALL)


def tool_call_part_keys(record: AgentToolCall) -> tuple[str, ...]:
    """The keys of the parts in which long texts of ``record`` lie."""
    return _lay_call(record).entry.part_keys()


def is_final(entry: Entry) -> bool:
    """Whether the stored tool call has its one result."""
    return entry.data.get("status") not in (
        ToolCallStatus.AWAITING_APPROVAL,
        ToolCallStatus.RUNNABLE,
    )


def lay_run_state(run_state: str) -> Mapping[str, str]:
    """``run_state`` in parts by key. As it grows at its end, the parts before stay as they were."""
    parts = tuple(_split(run_state, RUN_STATE_PART_BYTES))
    return dict(zip(run_state_keys(len(parts)), parts, strict=True))


def run_state_keys(count: int) -> tuple[str, ...]:
    """The keys of a run state that lies in ``count`` parts."""
    return tuple(f"{number:06d}" for number in range(count))


def read_run_state(parts: Mapping[str, str]) -> str | None:
    """The run state that `lay_run_state` laid; None when there is none."""
    return "".join(parts[key] for key in sorted(parts)) if parts else None


def _lay_call(record: AgentToolCall) -> Laid:
    return _lay(dump(record, AgentToolCall), record.tool_call_id)


def _lay(data: dict[str, JsonData], owner: str, roomy: tuple[str, ...] = ()) -> Laid:
    """``data`` with each text apart that is too long for an entry; those of ``roomy`` may be longer."""
    parts: dict[str, str] = {}
    for name, text in data.items():
        inline_bytes = INLINE_MESSAGE_TEXT_BYTES if name in roomy else INLINE_TEXT_BYTES
        if not isinstance(text, str) or _fits(text, inline_bytes):
            continue
        split = enumerate(_split(text, PART_BYTES))
        keyed = {f"{_prefix(name, owner)}{n:06d}": part for n, part in split}
        parts |= keyed
        data[name] = {"parts": list[JsonData](keyed), "start": shorten(text, _START_BYTES)}
    return Laid(Entry(data), parts)


def _prefix(name: str, owner: str) -> str:
    return f"{owner}.{name}."


def _fits(text: str, limit_bytes: int) -> bool:
    """Whether ``text`` is no longer than that as JSON, which is what an engine stores and moves."""
    size = size_bytes(text)
    if size * _JSON_GROWS_BY <= limit_bytes:
        return True
    return size <= limit_bytes and size_bytes(json.dumps(text, ensure_ascii=False)) <= limit_bytes


def _split(text: str, part_bytes: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        part = keep_bytes(text[start : start + part_bytes], part_bytes)
        yield part
        start += len(part)
