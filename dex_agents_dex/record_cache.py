"""Records that this Worker has decoded before. Only such as never change are kept, so no entry is ever wrong."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import define, field

from dex_agents_model.calls import AgentToolCall, FinalCall, Succeeded
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.records import AgentMessage
from dex_agents_model.requests import message_bytes
from dex_agents_model.text import size_bytes

DEFAULT_CAPACITY_BYTES: Final = 64 * 1024 * 1024
_OVERHEAD_BYTES: Final = 512


@define
class _Run:
    """What is here of one run of a session."""

    messages: dict[int, AgentMessage] = field(factory=dict)
    calls: dict[TurnId, dict[ToolCallId, FinalCall]] = field(factory=dict)
    size_bytes: int = 0
    summarised_through: int = 0


class RecordCache:
    """Records of the runs used last, up to ``capacity_bytes`` of their text.

    A model call reads all messages of its session, so a run is dropped as a whole. One that is too
    large by itself keeps what it has: to drop its oldest for its newest would lose all of them in turn.
    """

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def messages(self, run_id: str) -> Mapping[int, AgentMessage]:
        """The messages of a run that are here, by sequence."""
        return self._use(run_id).messages

    def final_calls(self, run_id: str, turn: TurnId) -> Mapping[ToolCallId, FinalCall]:
        """The final records of a turn's tool calls that are here."""
        return self._use(run_id).calls.get(turn, {})

    def keep_messages(self, run_id: str, messages: Iterable[AgentMessage]) -> None:
        """Keep messages that were read from storage."""
        run = self._use(run_id)
        for message in messages:
            if message.sequence not in run.messages and self._makes_room(
                run_id, run, _size_of_message(message)
            ):
                run.messages[message.sequence] = message

    def keep_calls(self, run_id: str, turn: TurnId, calls: Iterable[AgentToolCall]) -> None:
        """Keep those of a turn's tool calls, read from storage, that can no longer change."""
        run = self._use(run_id)
        kept = run.calls.setdefault(turn, {})
        for call in calls:
            if not isinstance(call, FinalCall) or call.tool_call_id in kept:
                continue
            if self._makes_room(run_id, run, _size_of_call(call)):
                kept[call.tool_call_id] = call

    def leave_behind(self, run_id: str, through: int, turn: TurnId) -> None:
        """Drop what no Step of a run reads again: its messages up to ``through``, and calls of other turns."""
        run = self._use(run_id)
        freed_bytes = 0
        if through > run.summarised_through:
            run.summarised_through = through
            for sequence in [each for each in run.messages if each <= through]:
                freed_bytes += _size_of_message(run.messages.pop(sequence))
        for other in [each for each in run.calls if each != turn]:
            freed_bytes += sum(map(_size_of_call, run.calls.pop(other).values()))
        run.size_bytes -= freed_bytes
        self._size_bytes -= freed_bytes
        if not run.size_bytes:
            self._runs.pop(run_id, None)

    def _use(self, run_id: str) -> _Run:
        """The run, which is used now; one that is not here begins to be once something of it is kept."""
        run = self._runs.get(run_id)
        if run is None:
            return _Run()
        self._runs.move_to_end(run_id)
        return run

    def _makes_room(self, run_id: str, run: _Run, needed_bytes: int) -> bool:
        """Whether the ``run`` in use may grow by that much; others are dropped for it, the oldest first."""
        self._runs[run_id] = run
        while self._size_bytes + needed_bytes > self._capacity_bytes:
            oldest = next(iter(self._runs))
            if oldest == run_id:
                return False
            self._size_bytes -= self._runs.pop(oldest).size_bytes
        run.size_bytes += needed_bytes
        self._size_bytes += needed_bytes
        return True


def _size_of_message(message: AgentMessage) -> int:
    return message_bytes(message) + _OVERHEAD_BYTES


def _size_of_call(record: FinalCall) -> int:
    texts = [record.arguments]
    if isinstance(record, Succeeded):
        texts += [record.output, record.framework_content or ""]
    return sum(map(size_bytes, texts)) + _OVERHEAD_BYTES
