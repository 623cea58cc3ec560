"""Stored messages that this Worker has decoded before, copied for whoever asks.

A stored message never changes, so no entry is ever wrong.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, Final

from pydantic_ai.messages import ModelMessage

from dex_agents_model import AgentMessage
from dex_agents_model.text import size_bytes

from .history import from_stored

DEFAULT_CAPACITY_BYTES: Final = 32 * 1024 * 1024
_OVERHEAD_BYTES: Final = 512
_PLAIN: Final = frozenset({str, bytes, int, float, bool, NoneType, datetime})
"""Nearly all values of a message, none of which can be changed."""


class DecodedMessages:
    """The messages used last, of all sessions together, up to ``capacity_bytes`` of their JSON text."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._messages: OrderedDict[str, ModelMessage] = OrderedDict()

    def __call__(self, stored: AgentMessage) -> ModelMessage:
        """The message that was stored, a copy of its own for whoever asks.

        Raises:
            ModelStepFailed: its item is not one message of Pydantic AI.
        """
        item = stored.framework_item
        known = self._messages.get(item)
        if known is None:
            known = from_stored(stored)
            self._keep(item, known)
        else:
            self._messages.move_to_end(item)
        copied: ModelMessage = _copied(known)
        return copied

    def _keep(self, item: str, message: ModelMessage) -> None:
        self._messages[item] = message
        self._size_bytes += size_bytes(item) + _OVERHEAD_BYTES
        while self._size_bytes > self._capacity_bytes:
            dropped, _ = self._messages.popitem(last=False)
            self._size_bytes -= size_bytes(dropped) + _OVERHEAD_BYTES


def _copied(value: Any) -> Any:
    """As `copy.deepcopy` does it, in an eighth of its time: this is done for every message of a session."""
    kind = type(value)
    if kind is list:
        return [_copied(item) for item in value]
    if kind is dict:
        own = fields = value.copy()
    elif is_dataclass(kind):
        own = object.__new__(kind)
        # Not updated in place: an object without a dict of its own yet takes three times as long.
        own.__dict__ = fields = value.__dict__.copy()
    else:
        return value
    for name, field in fields.items():
        if type(field) not in _PLAIN:
            fields[name] = _copied(field)
    return own
