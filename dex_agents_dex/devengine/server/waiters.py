"""Those who wait for something to change: long polls, by what they watch."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from attrs import Factory, define


@define(eq=False)
class Waiters:
    _waiting: dict[Hashable, set[asyncio.Future[None]]] = Factory(dict)

    def wake(self, subject: Hashable) -> None:
        for waiter in self._waiting.pop(subject, ()):
            if not waiter.done():
                waiter.set_result(None)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def has(self, subject: Hashable) -> bool:
        return subject in self._waiting

    async def wait(self, subject: Hashable, timeout_seconds: float) -> bool:
        """Return True at the subject's next change, False when the time is over."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, set()).add(waiter)
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiting = self._waiting.get(subject)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._waiting[subject]
        return True
