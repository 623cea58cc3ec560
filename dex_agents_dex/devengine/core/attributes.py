"""The Attributes of one run: all its singletons, and those map entries that are in memory.

A map grows with the age of its Flow; a store keeps all of it, and what nothing used for long is
there only. Whoever needs such an entry has it brought first: `missing` says what, `supply` takes it
in. Nothing here knows where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

_OVERHEAD_BYTES = 256  # of an entry in memory, beside its key and content


@define(eq=False)
class Attributes:
    """Values by physical key. `Map/` selects a whole map, `Map/key` one entry."""

    singletons: dict[str, pb.Value] = Factory(dict)
    size_bytes: int = 0  # of the map entries in memory
    # The longest unused first; None: known to be absent.
    _entries: dict[str, pb.Value | None] = Factory(dict)
    _keys_of: dict[str, dict[str, None]] = Factory(dict)  # those in memory, by map
    _partial: set[str] = Factory(set)  # maps of which a store may have more
    _readers: int = 0

    def note_stored_map(self, name: str) -> None:
        """A store has entries of this map, none of which is in memory."""
        self._partial.add(name)

    def knows(self, key: str) -> bool:
        """Whether `get` can tell the value of a key, or that there is none."""
        return "/" not in key or key in self._entries or _map_of(key) not in self._partial

    def missing(self, selections: Iterable[str]) -> tuple[str, ...]:
        """What of the selected maps and entries must be supplied before it can be read."""
        return tuple(
            each
            for each in dict.fromkeys(selections)
            if (_map_of(each) in self._partial if each.endswith("/") else not self.knows(each))
        )

    def get(self, key: str) -> pb.Value | None:
        """The value of a known key."""
        if "/" not in key:
            return self.singletons.get(key)
        value = self._entries.get(key)
        if value is not None:
            self._entries[key] = self._entries.pop(key)
        return value

    def map_entries(self, name: str) -> Iterator[tuple[str, pb.Value]]:
        """The entries of a map that is not missing."""
        for key in tuple(self._keys_of.get(name, ())):
            value = self.get(key)
            if value is not None:
                yield key, value

    def put(self, key: str, value: pb.Value) -> None:
        if "/" in key:
            self._keep(key, value)
        else:
            self.singletons[key] = value

    def drop(self, key: str) -> bool:
        """Forget a key; False if it is known that there was none."""
        if "/" not in key:
            return self.singletons.pop(key, None) is not None
        was_there = not self.knows(key) or self._entries.get(key) is not None
        self._leave(key)
        if _map_of(key) in self._partial:
            self._keep(key, None)
        return was_there

    def supply(self, selections: Iterable[str], found: Mapping[str, pb.Value]) -> None:
        """Take in what a store holds of the selections; what memory knows is as new or newer."""
        for key, value in found.items():
            if not self.knows(key):
                self._keep(key, value)
        for selection in selections:
            if selection.endswith("/"):
                self._complete(_map_of(selection))
            elif not self.knows(selection):
                self._keep(selection, None)

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """While a store reads for `supply` or `over`, nothing leaves memory: it may be newer."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    @property
    def is_being_read(self) -> bool:
        return self._readers > 0

    def over(self, stored: Mapping[str, pb.Value]) -> dict[str, pb.Value]:
        """All Attributes: what a store holds, corrected by what memory knows."""
        unknown = {key: value for key, value in stored.items() if not self.knows(key)}
        known = {key: value for key, value in self._entries.items() if value is not None}
        return {**self.singletons, **unknown, **known}

    def shrink(self, limit_bytes: int) -> None:
        """Let entries go, the longest unused first, until they fit; a store must have them."""
        if self._readers:
            return
        while self.size_bytes > limit_bytes:
            key = next(iter(self._entries))
            self._leave(key)
            self._partial.add(_map_of(key))

    def _keep(self, key: str, value: pb.Value | None) -> None:
        self._leave(key)
        self._entries[key] = value
        self._keys_of.setdefault(_map_of(key), {})[key] = None
        self.size_bytes += _size_bytes(key, value)

    def _leave(self, key: str) -> None:
        if key not in self._entries:
            return
        self.size_bytes -= _size_bytes(key, self._entries.pop(key))
        keys = self._keys_of[_map_of(key)]
        del keys[key]
        if not keys:
            del self._keys_of[_map_of(key)]

    def _complete(self, name: str) -> None:
        """The whole map is in memory now, so that what is not there is absent."""
        self._partial.discard(name)
        for key in tuple(self._keys_of.get(name, ())):
            if self._entries[key] is None:
                self._leave(key)


def _map_of(key: str) -> str:
    return key.partition("/")[0]


def _size_bytes(key: str, value: pb.Value | None) -> int:
    return _OVERHEAD_BYTES + len(key) + (value.ByteSize() if value is not None else 0)
