"""What an engine does from time to time.

Idle runs leave memory, old closed ones leave the disk, and quiet Workers are asked whether they live.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from attrs import define

from dex_agents_dex.devengine.core.instants import to_microseconds
from dex_agents_dex.devengine.loading import load_closed_before
from dex_agents_dex.devengine.server.hub import Hub

_LOGGER = logging.getLogger(__name__)
_DROPPED_AT_ONCE: Final = 100


@define(eq=False)
class Housekeeping:
    """`retention` of None keeps closed Flows for ever."""

    _hub: Hub
    _interval: timedelta
    _retention: timedelta | None
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep_house())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self._interval.total_seconds())
            try:
                self._hub.library.shelve()
                self._hub.dispatcher.ping()
                if self._retention is not None:
                    await self._drop_old_runs(self._retention)
            except Exception:
                _LOGGER.exception("housekeeping failed, and will be tried again")

    async def _drop_old_runs(self, retention: timedelta) -> None:
        before = to_microseconds(self._hub.clock.now() - retention)
        while True:
            old = await self._hub.store.read(
                lambda db: load_closed_before(db, before, _DROPPED_AT_ONCE)
            )
            if not old:
                return
            await self._hub.drop(old)
            _LOGGER.info("dropped %d closed Flows past their retention", len(old))
