"""Tells Dex that a Step is alive while its one effect is performed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta


@contextmanager
def beating(beat: Callable[[], Awaitable[None]], every: timedelta) -> Iterator[None]:
    """Beat on the running event loop as long as this lasts, first after ``every``.

    Most effects end before that: until then there is a timer, and no task.
    """
    loop = asyncio.get_running_loop()
    beats: list[asyncio.Task[None]] = []

    async def go_on() -> None:
        while True:
            await beat()
            await asyncio.sleep(every.total_seconds())

    timer = loop.call_later(every.total_seconds(), lambda: beats.append(loop.create_task(go_on())))
    try:
        yield
    finally:
        timer.cancel()
        for task in beats:
            task.cancel()
