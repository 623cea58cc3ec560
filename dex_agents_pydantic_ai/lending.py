"""The messages of a session's earlier turns, lent to one model Step after the other. What is shown is not decided here.

A hook of the agent may change the messages that it is given, or keep them and change them later, and
the next Step must see none of it. Copies for each Step would do, and take milliseconds in a long
session. So a Step is lent the objects that the last one had, if nobody else holds any of them and all
are as they were read. While somebody holds one, Steps get copies, and for good once one was changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from sys import getrefcount
from types import NoneType
from typing import Any, Final, TypeAlias

from attrs import Factory, define
from pydantic_ai.messages import ModelMessage

from dex_agents_model import AgentMessage, SessionId
from dex_agents_model.text import size_bytes

from .decoded import DecodedMessages
from .history import earlier_turns, from_stored

_Content: TypeAlias = dict[str, Any] | list[Any]

DEFAULT_CAPACITY_BYTES: Final = 64 * 1024 * 1024
_OVERHEAD_BYTES: Final = 2560
"""Of the objects of a message, and of what tells that they have not changed."""
_UNCHANGEABLE: Final = (str, bytes, int, float, NoneType, Enum, date, timedelta, Decimal)


class LentHistories:
    """Those of the sessions served last, up to about ``capacity_bytes`` in memory."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[SessionId, _History] = OrderedDict()
        self._copies = DecodedMessages()

    @contextmanager
    def lend(
        self, session: SessionId, stored: tuple[AgentMessage, ...]
    ) -> Iterator[Sequence[ModelMessage]]:
        """What the model is replayed of ``stored``, the messages of earlier turns, while the block runs.

        Raises:
            ModelStepFailed: an item is not one message of Pydantic AI.
        """
        # Taken out meanwhile: an attempt that everybody has given up may still be at work.
        history = self._take(session) or _History()
        is_free = history.is_free()
        if is_free:
            history = history.reaching(stored)
        is_lent = is_free and history.is_lendable
        yield history.messages if is_lent else earlier_turns(stored, self._copies)
        # Not kept after a failure, whose traceback holds on to all that was lent.
        self._keep(session, history)

    def _take(self, session: SessionId) -> _History | None:
        history = self._kept.pop(session, None)
        if history is not None:
            self._size_bytes -= history.size_bytes
        return history

    def _keep(self, session: SessionId, history: _History) -> None:
        self._take(session)
        self._kept[session] = history
        self._size_bytes += history.size_bytes
        while self._kept and self._size_bytes > self._capacity_bytes:
            self._take(next(iter(self._kept)))


@define
class _History:
    """Messages that were read, and what tells that they still are as they were."""

    is_lendable: bool = True
    stored: tuple[AgentMessage, ...] = ()
    messages: list[ModelMessage] = Factory(list)
    size_bytes: int = _OVERHEAD_BYTES
    _objects: list[object] = Factory(list)
    """All in ``messages`` that can be changed."""
    _holders: list[int] = Factory(list)
    """How many hold each of ``_objects`` while it is not lent."""
    _contents: list[_Content] = Factory(list)
    """The lists, the mappings and the fields among them."""
    _as_read: list[_Content] = Factory(list)
    """What was in each of ``_contents``."""

    def is_free(self) -> bool:
        """Whether nobody else holds any of it. A hook in a thread may do so a little longer than its run."""
        return list(map(getrefcount, self._objects)) == self._holders

    def reaching(self, stored: tuple[AgentMessage, ...]) -> _History:
        """This one with what was stored since, or one anew if ``stored`` does not go on from it."""
        if not self.is_lendable:
            return self
        if self._was_changed():
            return _History(is_lendable=False)
        known = len(self.stored)
        new = stored[known:]
        # An opening request takes the place of the message before it, so a turn is read at once.
        is_cut = bool(known and new) and new[0].turn_id == self.stored[-1].turn_id
        if is_cut or stored[:known] != self.stored:
            return _History().reaching(stored)
        self._read(new)
        self.stored = stored
        return self

    def _was_changed(self) -> bool:
        try:
            return self._contents != self._as_read
        except Exception:  # noqa: BLE001 - something was put in that refuses to be compared
            return True

    def _read(self, new: tuple[AgentMessage, ...]) -> None:
        messages_before, objects_before = len(self.messages), len(self._objects)
        self.messages += earlier_turns(new, from_stored)
        self._find_changeable(self.messages[messages_before:])
        self._holders += map(getrefcount, islice(self._objects, objects_before, None))
        self.size_bytes += sum(size_bytes(each.framework_item) + _OVERHEAD_BYTES for each in new)

    def _find_changeable(self, within: Sequence[object]) -> None:
        waiting = list(within)
        while waiting:
            value = waiting.pop()
            if isinstance(value, _UNCHANGEABLE):
                continue
            self._objects.append(value)
            content = value.__dict__ if is_dataclass(value) else value
            if content is not value:
                self._objects.append(content)
            if type(content) is dict:
                waiting += content.values()
            elif type(content) is list:
                waiting += content
            else:
                # Of a kind that no message is known to hold, so nothing is known of its changes.
                self.is_lendable = False
                continue
            self._contents.append(content)
            self._as_read.append(content.copy())
