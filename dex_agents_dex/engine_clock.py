"""A Worker's estimate of the engine's clock, learnt from the Steps that it is handed.

RPC handlers are told no time, and a Worker's own clock may be wrong by any amount. The engine stamps
each Step with its own time, cut to whole seconds, as it hands the Step out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_KEPT_STAMPS: Final = 64


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _since_an_unknown_moment() -> timedelta:
    return timedelta(seconds=time.monotonic())


class EngineClock:
    """Reckons from the newest stamps with a clock that nobody sets.

    Each stamp is a lower bound of the engine's time, off by less than a second and the time that
    the Step took to arrive; the highest of the newest 64 is the best that is known. Before the
    first one it can only repeat the Worker's own clock.
    """

    def __init__(
        self,
        elapsed: Callable[[], timedelta] = _since_an_unknown_moment,
        worker_clock: Callable[[], datetime] = _wall_clock,
    ) -> None:
        self._elapsed = elapsed
        self._worker_clock = worker_clock
        self._origins: deque[datetime] = deque(maxlen=_KEPT_STAMPS)

    def learn(self, stamped_at: datetime) -> None:
        """A Step that was handed out just now bears this time of the engine."""
        self._origins.append(stamped_at - self._elapsed())

    def now(self) -> datetime:
        """The engine's time: aware, UTC, at most about a second behind it and never ahead."""
        if not self._origins:
            return self._worker_clock()
        return max(self._origins) + self._elapsed()
