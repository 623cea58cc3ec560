"""Map entries on their way from the store, while others write."""

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.schema import TABLES
from dex_agents_dex.devengine.server.library import Library
from dex_agents_dex.devengine.server.waiters import Waiters

T = TypeVar("T")

OLD, NEW = pb.Value(string_value="old"), pb.Value(string_value="new")


@define
class _SlowStore:
    """Reads at once, and answers when it is told to."""

    database: sqlite3.Connection
    has_read: asyncio.Event = Factory(asyncio.Event)
    may_answer: asyncio.Event = Factory(asyncio.Event)

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        found = read(self.database)
        self.has_read.set()
        await self.may_answer.wait()
        return found


async def test_bring__does_not_undo_what_was_written_while_the_store_read() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(TABLES)
    database.executemany(
        "INSERT INTO attribute VALUES (1, ?, ?)",
        [(f"Map/{key}", OLD.SerializeToString()) for key in ("changed", "dropped", "kept")],
    )
    run = Run(1, "f", "run", "T", "r", datetime.now(UTC), pb.StartFlowRequest())
    run.attributes.note_stored_map("Map")
    store, no_room = _SlowStore(database), 0
    library = Library(Core(), cast(Any, store), Waiters(), no_room, lambda run: None)
    bringing = asyncio.create_task(library.bring(run, ("Map/",)))
    await store.has_read.wait()
    run.attributes.put("Map/changed", NEW)
    run.attributes.drop("Map/dropped")
    store.may_answer.set()
    await bringing
    assert dict(run.attributes.map_entries("Map")) == {"Map/changed": NEW, "Map/kept": OLD}
    database.close()
