"""Stored messages that this Worker has decoded before. A stored message never changes, so no entry is ever wrong."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dex_agents_model.records import AgentMessage
from dex_agents_model.text import size_bytes

DEFAULT_CAPACITY_BYTES: Final = 64 * 1024 * 1024
_OVERHEAD_BYTES: Final = 512


class MessageCache:
    """The messages used last, of all sessions together, up to ``capacity_bytes`` of their text."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._messages: OrderedDict[tuple[str, str], AgentMessage] = OrderedDict()

    def get(self, run_id: str, key: str, read: Callable[[], AgentMessage]) -> AgentMessage:
        """The message of one run of a session, ``read`` when it is not here."""
        known = self._messages.get((run_id, key))
        if known is not None:
            self._messages.move_to_end((run_id, key))
            return known
        message = self._messages[run_id, key] = read()
        self._size_bytes += _size_bytes(message)
        while self._size_bytes > self._capacity_bytes:
            _, dropped = self._messages.popitem(last=False)
            self._size_bytes -= _size_bytes(dropped)
        return message


def _size_bytes(message: AgentMessage) -> int:
    return size_bytes(message.framework_item) + size_bytes(message.text or "") + _OVERHEAD_BYTES
