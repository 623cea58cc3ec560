"""Attribute locks of one run: who holds which key, and who waits in line.

Kept in memory only; after a restart the holders ask again. An owner is a Step execution's number
in its run, or the object that stands for an RPC.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from attrs import Factory, define, frozen


@frozen
class _Waiter:
    owner: Hashable
    keys: frozenset[str]


@define
class LockTable:
    """FIFO locks over sets of keys; a set is granted whole or not at all."""

    _holders: dict[str, Hashable] = Factory(dict)
    _held: dict[Hashable, frozenset[str]] = Factory(dict)
    _line: list[_Waiter] = Factory(list)

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def holds(self, owner: Hashable) -> bool:
        return owner in self._held

    def try_acquire(self, owner: Hashable, keys: Sequence[str]) -> bool:
        """Take all keys now, passing those who wait, or take none."""
        wanted = frozenset(keys)
        if not wanted.isdisjoint(self._holders):
            return False
        self._grant(owner, wanted)
        return True

    def wait_in_line(self, owner: Hashable, keys: Sequence[str]) -> None:
        """Join the line; `grant_line` says when the keys are the owner's."""
        self._line.append(_Waiter(owner, frozenset(keys)))

    def release(self, owner: Hashable) -> None:
        """Give up what the owner holds and its places in the line."""
        for key in self._held.pop(owner, ()):
            del self._holders[key]
        if self._line:
            self._line = [waiter for waiter in self._line if waiter.owner != owner]

    def grant_line(self) -> list[Hashable]:
        """Grant every waiter whose keys are free and wanted by nobody before it; in line order."""
        granted: list[Hashable] = []
        still_waiting: list[_Waiter] = []
        claimed: set[str] = set()
        for waiter in self._line:
            if waiter.keys.isdisjoint(self._holders) and waiter.keys.isdisjoint(claimed):
                self._grant(waiter.owner, waiter.keys)
                granted.append(waiter.owner)
            else:
                claimed |= waiter.keys
                still_waiting.append(waiter)
        self._line = still_waiting
        return granted

    def clear(self) -> None:
        self._holders.clear()
        self._held.clear()
        self._line.clear()

    def _grant(self, owner: Hashable, keys: frozenset[str]) -> None:
        self._held[owner] = keys
        for key in keys:
            self._holders[key] = owner
