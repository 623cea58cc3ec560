"""One timer per key, over a clock that a test may move.

What a timer means is the core's business; a fired one is handed to a callback.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import Factory, define

from dex_agents_dex.devengine.core.transaction import TimerKey

_LOGGER = logging.getLogger(__name__)

_SMALLEST_CLEAN_UP: Final = 256
_LONGEST_SLEEP_SECONDS: Final = 5.0  # an event loop does not count the time that its machine sleeps
_JUMP_SECONDS: Final = 2.0


@define
class Clock:
    """The wall clock, plus what tests skipped."""

    skipped: timedelta = timedelta()
    _lead_seconds: float | None = None  # over the event loop's clock, when it was asked last

    def now(self) -> datetime:
        return datetime.fromtimestamp(wall_seconds(), UTC) + self.skipped

    def has_jumped(self) -> bool:
        """Whether it was set, or the machine slept, since this was asked last."""
        lead_seconds, before = (
            wall_seconds() - asyncio.get_running_loop().time(),
            self._lead_seconds,
        )
        self._lead_seconds = lead_seconds
        return before is not None and abs(lead_seconds - before) > _JUMP_SECONDS


def wall_seconds() -> float:
    """Since 1970."""
    return time.time()


@define(eq=False)
class TimerQueue:
    """Fires each key once at its due time. Setting a key again replaces its timer.

    `on_jump` is told first when the clock jumped.
    """

    _clock: Clock
    _fire: Callable[[TimerKey], None]
    _on_jump: Callable[[], None]
    _due: dict[TimerKey, datetime] = Factory(dict)
    _heap: list[tuple[datetime, int, TimerKey]] = Factory(list)  # entries may be outdated
    _order: itertools.count[int] = Factory(itertools.count)
    _alarm: asyncio.TimerHandle | None = None
    _alarm_at: datetime | None = None
    _is_closed: bool = False

    @property
    def pending(self) -> int:
        return len(self._due)

    def set(self, key: TimerKey, due: datetime | None) -> None:
        """Fire at `due`, or, for None, not any more."""
        if due is None:
            self._due.pop(key, None)
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        if len(self._heap) > _SMALLEST_CLEAN_UP + 2 * len(self._due):
            self._clean_up()
        if self._alarm_at is None or due < self._alarm_at:
            self._set_alarm(due)

    def fire_due(self) -> None:
        """Fire what is due now, also after the clock was moved."""
        if self._is_closed:
            return
        if self._clock.has_jumped():
            self._on_jump()
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                try:
                    self._fire(key)
                except Exception:
                    _LOGGER.exception("a timer of run %d broke off", key.run_key)
        self._drop_outdated_head()
        self._cancel_alarm()
        if self._heap:
            self._set_alarm(self._heap[0][0])

    def close(self) -> None:
        """Fire nothing any more, whatever is still set."""
        self._is_closed = True
        self._cancel_alarm()

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_at = None

    def _set_alarm(self, due: datetime) -> None:
        self._cancel_alarm()
        if self._is_closed:
            return
        left_seconds = (due - self._clock.now()).total_seconds()
        delay_seconds = min(max(0.0, left_seconds), _LONGEST_SLEEP_SECONDS)
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(delay_seconds, self.fire_due)

    def _clean_up(self) -> None:
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

    def _drop_outdated_head(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
