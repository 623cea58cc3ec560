"""Records that this Worker has decoded before. Only such as never change are kept, so no entry is ever wrong."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from attrs import define, field, frozen

from dex_agents_model.calls import AgentToolCall, FinalCall, Succeeded
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.records import AgentMessage
from dex_agents_model.requests import message_bytes
from dex_agents_model.text import size_bytes

DEFAULT_CAPACITY_BYTES: Final = 64 * 1024 * 1024
_OVERHEAD_BYTES: Final = 512

_Kept: TypeAlias = AgentMessage | FinalCall


@frozen
class MessageKey:
    """A stored message of one run of a session."""

    run_id: str
    sequence: int


@frozen
class CallKey:
    """A tool call of one run of a session; its record is kept once it is final."""

    run_id: str
    turn: TurnId
    call: ToolCallId


@define
class _Run:
    """What is here of one run of a session."""

    keys: set[MessageKey | CallKey] = field(factory=set)
    left_behind: tuple[int, TurnId] | None = None


class RecordCache:
    """The records used last, of all sessions together, up to ``capacity_bytes`` of their text."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._records: OrderedDict[MessageKey | CallKey, _Kept] = OrderedDict()
        self._runs: dict[str, _Run] = {}

    def __contains__(self, key: MessageKey | CallKey) -> bool:
        return key in self._records

    def message(self, key: MessageKey) -> AgentMessage | None:
        """The message, when it is here."""
        found = self._use(key)
        return found if isinstance(found, AgentMessage) else None

    def final_call(self, key: CallKey) -> FinalCall | None:
        """The call's final record, when it is here."""
        found = self._use(key)
        return found if isinstance(found, FinalCall) else None

    def keep(self, key: MessageKey | CallKey, record: AgentMessage | AgentToolCall) -> None:
        """Keep a record that was read from storage, unless it may still change."""
        if key in self._records or not isinstance(record, _Kept):
            return
        self._records[key] = record
        self._runs.setdefault(key.run_id, _Run()).keys.add(key)
        self._size_bytes += _size_bytes(record)
        while self._size_bytes > self._capacity_bytes:
            self._drop(next(iter(self._records)))

    def leave_behind(self, run_id: str, through: int, turn: TurnId) -> None:
        """Drop what no Step of a run reads again: its messages up to ``through``, and calls of other turns."""
        run = self._runs.get(run_id)
        if run is None or run.left_behind == (through, turn):
            return
        run.left_behind = (through, turn)
        for key in [key for key in run.keys if not _is_read(key, through, turn)]:
            self._drop(key)

    def _use(self, key: MessageKey | CallKey) -> _Kept | None:
        found = self._records.get(key)
        if found is not None:
            self._records.move_to_end(key)
        return found

    def _drop(self, key: MessageKey | CallKey) -> None:
        self._size_bytes -= _size_bytes(self._records.pop(key))
        keys = self._runs[key.run_id].keys
        keys.remove(key)
        if not keys:
            del self._runs[key.run_id]


def _is_read(key: MessageKey | CallKey, through: int, turn: TurnId) -> bool:
    return key.sequence > through if isinstance(key, MessageKey) else key.turn == turn


def _size_bytes(record: _Kept) -> int:
    match record:
        case AgentMessage():
            size = message_bytes(record)
        case Succeeded(output=output, framework_content=content):
            size = sum(map(size_bytes, (record.arguments, output, content or "")))
        case _:
            size = size_bytes(record.arguments)
    return size + _OVERHEAD_BYTES
