"""Those who wait for something to change: long polls, by what they watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import TypeAlias

from attrs import Factory, define

Condition: TypeAlias = Callable[[], bool]


def _any_change() -> bool:
    return True


@define(eq=False)
class Waiters:
    _waiting: dict[Hashable, dict[asyncio.Future[None], Condition]] = Factory(dict)
    _closing: Exception | None = None

    def wake(self, subject: Hashable) -> None:
        """Tell those whom this change of the subject concerns."""
        for waiter, is_due in self._waiting.get(subject, {}).items():
            if not waiter.done() and is_due():
                waiter.set_result(None)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def has(self, subject: Hashable) -> bool:
        return subject in self._waiting

    def close(self, reason: Exception) -> None:
        """End every wait, and each that is yet to begin, with `reason`."""
        self._closing = reason
        for waiting in self._waiting.values():
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(reason)

    async def wait(
        self, subject: Hashable, timeout_seconds: float, is_due: Condition = _any_change
    ) -> bool:
        """Return True at the subject's next change with `is_due`, False when the time is over.

        `is_due` is asked at each change, must not fail, and saves waking up for the others.
        """
        if self._closing is not None:
            raise self._closing
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(subject, {})
        waiting[waiter] = is_due
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            del waiting[waiter]
            if not waiting:
                del self._waiting[subject]
        return True
