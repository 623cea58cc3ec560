"""How records lie in storage: one small entry each, and text that is too long for it in parts beside it.

An engine moves whole entries in frames of limited size; no entry here exceeds `PART_BYTES` by more
than its JSON escapes. Both ports store through this file, so both have the same keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from attrs import frozen

from .calls import AgentToolCall, FinalCall
from .errors import StateCorrupt
from .records import AgentMessage
from .text import size_bytes
from .wire import JsonData, dump, load

PART_BYTES: Final = 1024 * 1024
INLINE_BYTES: Final = 64 * 1024
_PART_CHARACTERS: Final = PART_BYTES // 4
_MESSAGE_TEXTS: Final = ("framework_item", "text")
_CALL_TEXTS: Final = ("arguments", "output")


@frozen
class Entry:
    """One entry of a map as it is stored: a record's JSON data, long texts replaced by their part keys."""

    data: Mapping[str, JsonData]

    def part_keys(self) -> tuple[str, ...]:
        """The keys of all parts that this entry needs, in no order that matters."""
        found: list[str] = []
        for value in self.data.values():
            if isinstance(value, dict) and "parts" in value:
                found += cast("list[str]", value["parts"])
        return tuple(found)


@frozen
class Laid:
    """What is to be stored for one record: its entry, and the parts that are new or changed."""

    entry: Entry
    parts: Mapping[str, str]


def message_key(sequence: int) -> str:
    """The key of a stored message: 12 digits, so that keys sort as sequences do."""
    return f"{sequence:012d}"


def lay_message(message: AgentMessage) -> Laid:
    """``message`` for storage."""
    return _lay(dump(message, AgentMessage), message_key(message.sequence), _MESSAGE_TEXTS)


def read_message(entry: Entry, parts: Mapping[str, str]) -> AgentMessage:
    """The message that `lay_message` laid."""
    return load(_joined(entry, parts), AgentMessage)


def lay_tool_call(record: AgentToolCall) -> Laid:
    """``record`` for storage. The arguments of a final call were stored while it was open."""
    laid = _lay(dump(record, AgentToolCall), record.tool_call_id, _CALL_TEXTS)
    if not isinstance(record, FinalCall):
        return laid
    prefix = _prefix("arguments", record.tool_call_id)
    return Laid(
        laid.entry, {key: part for key, part in laid.parts.items() if not key.startswith(prefix)}
    )


def read_tool_call(entry: Entry, parts: Mapping[str, str]) -> AgentToolCall:
    """The record that `lay_tool_call` laid."""
    shape = cast("type[AgentToolCall]", AgentToolCall)
    return load(_joined(entry, parts), shape)


def lay_run_state(run_state: str) -> Mapping[str, str]:
    """``run_state`` in parts by key."""
    return {f"{number:06d}": part for number, part in enumerate(_split(run_state))}


def read_run_state(parts: Mapping[str, str]) -> str | None:
    """The run state that `lay_run_state` laid; None when there is none."""
    return "".join(parts[key] for key in sorted(parts)) if parts else None


def _lay(data: dict[str, JsonData], owner: str, texts: tuple[str, ...]) -> Laid:
    parts: dict[str, str] = {}
    for name in texts:
        text = data.get(name)
        if not isinstance(text, str) or size_bytes(text) <= INLINE_BYTES:
            continue
        keyed = {f"{_prefix(name, owner)}{n:06d}": part for n, part in enumerate(_split(text))}
        parts |= keyed
        data[name] = {"parts": list[JsonData](keyed)}
    return Laid(Entry(data), parts)


def _prefix(name: str, owner: str) -> str:
    return f"{owner}.{name}."


def _joined(entry: Entry, parts: Mapping[str, str]) -> dict[str, JsonData]:
    data = dict(entry.data)
    for name, value in entry.data.items():
        if isinstance(value, dict) and "parts" in value:
            keys = cast("list[str]", value["parts"])
            missing = [key for key in keys if key not in parts]
            if missing:
                raise StateCorrupt(f"the parts {missing} of a stored {name} are missing")
            data[name] = "".join(parts[key] for key in keys)
    return data


def _split(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PART_CHARACTERS):
        yield text[start : start + _PART_CHARACTERS]
