"""Which runs are in memory: those at work; the others are read back when something asks for them.

A run that only waits costs its rows, and a timer if it has one. Nothing about a run is decided
here.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.errors import no_flow
from dex_agents_dex.devengine.core.state import Phase, Run
from dex_agents_dex.devengine.loading import (
    find_run_key,
    find_run_keys,
    load_all_attributes,
    load_attributes,
    load_run,
)
from dex_agents_dex.devengine.server.waiters import Waiters
from dex_agents_dex.devengine.store import Store


@define(eq=False)
class Library:
    """`on_loaded` takes up a run that was just read."""

    _core: Core
    _store: Store
    _waiters: Waiters
    _map_bytes_in_memory: int  # of a run
    _on_loaded: Callable[[Run], None]
    _loading: dict[int, asyncio.Task[Run | None]] = Factory(dict)
    _used: set[int] = Factory(set)  # since the last `shelve`

    async def find(self, flow_id: str, run_id: str = "") -> Run:
        """The named run or the Flow's latest; raise `Refusal` if there is none."""
        run = await self.look_up(flow_id, run_id)
        if run is None:
            raise no_flow(flow_id)
        return run

    async def look_up(self, flow_id: str, run_id: str = "") -> Run | None:
        run = self._core.loaded_run(flow_id, run_id)
        if run is None:
            run_key = await self._store.read(lambda db: find_run_key(db, flow_id, run_id))
            if run_key is None:
                return self._core.loaded_run(flow_id, run_id)
            run = await self.load(run_key)
        if run is not None:
            self._used.add(run.key)
        return run

    async def load(self, run_key: int) -> Run | None:
        """A run by its key, from memory or the store; None if it was dropped."""
        run = self._core.runs.get(run_key)
        if run is not None:
            return run
        loading = self._loading.get(run_key)
        if loading is None:
            loading = asyncio.get_running_loop().create_task(self._load(run_key))
            self._loading[run_key] = loading
        return await asyncio.shield(loading)

    async def bring(self, run: Run, selections: Sequence[str]) -> None:
        """Have what a run's maps hold of the selections in memory, until its next change."""
        run.attributes.shrink(self._map_bytes_in_memory)
        with run.attributes.being_read():  # what is written meanwhile stays, and is the newer
            found = await self._store.read(lambda db: load_attributes(db, run.key, selections))
            run.attributes.supply(selections, found)

    async def all_attributes(self, run: Run) -> dict[str, pb.Value]:
        """Those of the maps too, which are not kept in memory for it."""
        with run.attributes.being_read():
            stored = await self._store.read(lambda db: load_all_attributes(db, run.key))
        return run.attributes.over(stored)

    async def runs_of(self, flow_id: str) -> tuple[Run, ...]:
        """All runs of a Flow, oldest first."""
        keys = await self._store.read(lambda db: find_run_keys(db, flow_id))
        runs = [await self.load(key) for key in keys]
        return tuple(run for run in runs if run is not None)

    def note_use(self, run_key: int) -> None:
        self._used.add(run_key)

    def shelve(self) -> None:
        """Forget the runs that nothing used since the last time, and that nothing holds."""
        for run in tuple(self._core.runs.values()):
            if run.key not in self._used and self._is_idle(run):
                self._core.forget_run(run)
        self._used.clear()

    def _is_idle(self, run: Run) -> bool:
        return (
            not run.rpcs
            and not run.attributes.is_being_read
            and not self._waiters.has(run.key)
            and all(step.phase is Phase.WAITING for step in run.steps.values())
        )

    async def _load(self, run_key: int) -> Run | None:
        try:
            run, is_latest = await self._store.read(lambda db: _read(db, run_key))
            if run is None:
                return None
            self._core.add_run(run, is_latest=is_latest)
            self._used.add(run_key)
            self._on_loaded(run)
            return run
        finally:
            del self._loading[run_key]


def _read(connection: sqlite3.Connection, run_key: int) -> tuple[Run | None, bool]:
    run = load_run(connection, run_key)
    is_latest = run is not None and find_run_key(connection, run.flow_id, "") == run_key
    return run, is_latest
