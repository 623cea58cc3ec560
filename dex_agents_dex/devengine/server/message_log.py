"""Dex Streams: append-only logs in memory, trimmed from the oldest.

Tokens grow over restarts, because each start begins a new range of them; messages of an earlier
start are gone, and their tokens read on from the head. No Flow is looked at here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid
from dex_agents_dex.devengine.core.instants import set_instant

MESSAGE_LIMIT_BYTES: Final = 100 * 1024
LARGEST_PAGE: Final = 1000
_LARGEST_PAGE_BYTES: Final = 3_000_000  # and one message more; a client takes 4 MiB
_DEFAULT_CAPACITY_BYTES: Final = 1 << 20
_LONGEST_TOKEN: Final = 40
_TOKENS_PER_START: Final = 1 << 40


class StreamKey(NamedTuple):
    flow_type: str
    stream_name: str
    flow_id: str


class _Entry(NamedTuple):
    number: int
    flow_id: str
    size_bytes: int
    message: pb.StreamMessage


@define
class _Shared:
    """What all Flows of a type share: one capacity."""

    entries: deque[_Entry] = Factory(deque)
    size_bytes: int = 0


@define(eq=False)
class MessageLog:
    """All Streams of one start of the engine; `start_number` grows with every start."""

    start_number: int
    _count: int = 0
    _shared: dict[tuple[str, str], _Shared] = Factory(dict)
    _of_flow: dict[StreamKey, deque[_Entry]] = Factory(dict)

    @property
    def _newest_number(self) -> int:
        return self.start_number * _TOKENS_PER_START + self._count

    def append(
        self,
        key: StreamKey,
        value: pb.Value,
        source: str,
        now: datetime,
        capacity_bytes: int,
    ) -> None:
        """Raise `Refusal` for a message without content, or above the limit."""
        if value.WhichOneof("kind") is None:
            raise invalid(f"a message for Stream {key.stream_name!r} has no value")
        size_bytes = value.ByteSize()
        if size_bytes > MESSAGE_LIMIT_BYTES:
            raise invalid(
                f"a message of {size_bytes} bytes for Stream {key.stream_name!r}: "
                f"the limit is {MESSAGE_LIMIT_BYTES}"
            )
        self._count += 1
        number = self._newest_number
        message = pb.StreamMessage(value=value, resume_token=str(number), source=source)
        set_instant(message.created_time, now)
        entry = _Entry(number, key.flow_id, size_bytes, message)
        shared = self._shared.setdefault((key.flow_type, key.stream_name), _Shared())
        shared.entries.append(entry)
        shared.size_bytes += size_bytes
        self._of_flow.setdefault(key, deque()).append(entry)
        self._trim(key, shared, capacity_bytes if capacity_bytes > 0 else _DEFAULT_CAPACITY_BYTES)

    def after(self, key: StreamKey, token: str) -> pb.StreamMessage | None:
        """The message after a token; the oldest kept one for an empty, trimmed or foreign token."""
        entries = self._of_flow.get(key, ())
        number = _number(token)
        if number > self._newest_number:
            number = 0  # of another data directory: here nothing would ever follow it
        index = bisect_right(entries, number, key=_number_of)
        return entries[index].message if index < len(entries) else None

    def page_before(
        self, key: StreamKey, token: str, page_size: int
    ) -> tuple[list[pb.StreamMessage], str]:
        """Newest first, older than the token's message, and the token of the next page."""
        if not 1 <= page_size <= LARGEST_PAGE:
            raise invalid(f"page_size must be 1 to {LARGEST_PAGE}, not {page_size}")
        entries = self._of_flow.get(key, ())
        end = len(entries)
        if token:
            number = _number(token)
            end = bisect_left(entries, number, key=_number_of)
            if end == len(entries) or entries[end].number != number:
                return [], ""  # the message was trimmed, and so were all older ones
        page: list[pb.StreamMessage] = []
        room_bytes = _LARGEST_PAGE_BYTES
        begin = end
        while begin > 0 and len(page) < page_size and room_bytes >= 0:
            begin -= 1
            page.append(entries[begin].message)
            room_bytes -= entries[begin].size_bytes
        return page, page[-1].resume_token if begin else ""

    def forget(self, flow_id: str) -> None:
        """Drop every message of a Flow."""
        for key in [key for key in self._of_flow if key.flow_id == flow_id]:
            dropped = self._of_flow.pop(key)
            shared = self._shared[key.flow_type, key.stream_name]
            shared.entries = deque(e for e in shared.entries if e.flow_id != flow_id)
            shared.size_bytes -= sum(entry.size_bytes for entry in dropped)

    def _trim(self, key: StreamKey, shared: _Shared, capacity_bytes: int) -> None:
        while shared.size_bytes > capacity_bytes and len(shared.entries) > 1:
            oldest = shared.entries.popleft()
            shared.size_bytes -= oldest.size_bytes
            owner = key._replace(flow_id=oldest.flow_id)
            entries = self._of_flow[owner]
            entries.popleft()
            if not entries:
                del self._of_flow[owner]


def _number_of(entry: _Entry) -> int:
    return entry.number


def _number(token: str) -> int:
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) <= _LONGEST_TOKEN):
        raise invalid(f"{token[:40]!r} is not a token of this Stream")
    return int(token)
