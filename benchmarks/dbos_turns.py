"""Pydantic AI on DBOS: one workflow a turn, each model call and each tool call a step of it, SQLite in WAL mode.

SQLite's own default, `synchronous=FULL`, is set once more and read back: every commit is fsynced.
Nothing is streamed, as DBOS's capability has it by default. A turn gets the history as an argument
and returns the new messages, so that both are stored with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import sqlalchemy
from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry

from benchmarks.conversation import Opened
from benchmarks.workload import PROMPT, TOOLS, build_model, do_nothing

SETTINGS: Final = ("journal_mode=WAL", "synchronous=FULL")
Turn: TypeAlias = Callable[[list[ModelMessage]], Awaitable[list[ModelMessage]]]


class DBOSConversation:
    """A conversation whose turns are workflows; the list between them is the application's."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._history: list[ModelMessage] = []

    async def take_turn(self) -> None:
        self._history += await self._turn(self._history)


@asynccontextmanager
async def open_conversations(place: str, count: int) -> AsyncIterator[Opened]:
    url = f"sqlite:///{Path(place) / 'dbos.sqlite'}"
    engine = _engine(url)
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": url,
            "system_database_engine": engine,
            "log_level": "ERROR",
        }
    )
    turn = _turn()
    DBOS.launch()
    try:
        yield _settings(engine), [DBOSConversation(turn) for _ in range(count)]
    finally:
        DBOS.destroy()


def _turn() -> Turn:
    agent = Agent(build_model(), name="workload", capabilities=[DBOSDurability()])
    for name in TOOLS:
        agent.tool_plain(name=name)(DBOS.step(name=name)(do_nothing))

    async def take_turn(history: list[ModelMessage]) -> list[ModelMessage]:
        return (await agent.run(PROMPT, message_history=history)).new_messages()

    turn: Turn = DBOS.workflow(name="take_turn")(take_turn)
    return turn


def _engine(url: str) -> sqlalchemy.Engine:
    """As DBOS makes its own, with the two settings of this benchmark."""
    engine = sqlalchemy.create_engine(
        url,
        connect_args={"isolation_level": "IMMEDIATE"},
        pool_size=20,
        max_overflow=0,
        pool_timeout=30,
        pool_pre_ping=True,
    )

    def set_up(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        for pragma in ("busy_timeout=30000", "foreign_keys=ON", *SETTINGS):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", set_up)
    return engine


def _settings(engine: sqlalchemy.Engine) -> str:
    with engine.connect() as connection:
        read = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        }
    return f"one process; SQLite, read back: {read} (2 is FULL)"
