"""The dev engine's SQLite file: one writer thread, transactions in order, many per fsync.

The store knows rows and tables; what they mean lives in `core`. Only the writer thread touches
the connection, for reads too, so a read sees every transaction submitted before it.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from attrs import Factory, define, frozen

from dex_agents_dex.devengine.core.rows import Row
from dex_agents_dex.devengine.data_directory import STORE_FILE_NAME
from dex_agents_dex.devengine.schema import STATEMENTS, TABLES, VERSION

_LOGGER = logging.getLogger(__name__)

_ENOUGH_PER_COMMIT: Final = 256
_TURNS_TO_GATHER: Final = 3

T = TypeVar("T")


class StoreUnusable(Exception):
    """The data directory holds something that this engine cannot open."""


@frozen(eq=False)
class _Write:
    rows: Sequence[Row]
    on_durable: Callable[[], None]


@frozen(eq=False)
class _Read:
    run: Callable[[sqlite3.Connection], None]


_Job: TypeAlias = _Write | _Read


@define(eq=False)
class Store:
    """Writes in the order of `submit`. `on_failure` hears of an error after which nothing more
    is written: memory and disk would differ, so the engine must stop."""

    _path: Path
    _connection: sqlite3.Connection
    _loop: asyncio.AbstractEventLoop
    _on_failure: Callable[[BaseException], None]
    _jobs: queue.SimpleQueue[list[_Job] | None]
    _gathered: list[_Job] = Factory(list)  # for the thread, which does not know of them yet
    _thread: threading.Thread | None = None
    _submitted: int = 0
    _durable: int = 0
    commits: int = 0

    @classmethod
    def open(
        cls, data_dir: Path, *, is_strict: bool, on_failure: Callable[[BaseException], None]
    ) -> Store:
        """Open or make the file; raise `StoreUnusable` if it is of a newer engine, or no database.

        `is_strict`: an acknowledged write was fsynced; otherwise it survives the process only.
        """
        path = data_dir / STORE_FILE_NAME
        connection = _connect(path, is_strict=is_strict)
        return cls(path, connection, asyncio.get_running_loop(), on_failure, queue.SimpleQueue())

    @property
    def is_settled(self) -> bool:
        """Whether everything submitted is durable."""
        return self._submitted == self._durable

    @property
    def transactions(self) -> int:
        return self._durable

    def load(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read before `start`, on the caller's thread; raise `StoreUnusable` if that fails."""
        assert self._thread is None
        try:
            return read(self._connection)
        except sqlite3.OperationalError as error:
            # A full disk, say: nothing is wrong with the file.
            raise StoreUnusable(f"{self._path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(
                f"{self._path} is damaged ({error}): put a copy in the place of its data directory, or "
                "begin anew in another"
            ) from error

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="devengine-store", daemon=True)
        self._thread.start()

    def submit(self, rows: Sequence[Row], on_durable: Callable[[], None]) -> None:
        """Write one transaction; `on_durable` runs on the event loop once it is on disk."""
        self._submitted += 1
        if not self._gathered:
            self._loop.call_soon(self._gather, _TURNS_TO_GATHER)
        self._gathered.append(_Write(rows, on_durable))

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()

        def run(connection: sqlite3.Connection) -> None:
            try:
                result = read(connection)
            except Exception as error:  # noqa: BLE001  # the reader hears of it, the writer goes on
                self._loop.call_soon_threadsafe(_fail_if_waiting, answer, error)
            else:
                self._loop.call_soon_threadsafe(_answer_if_waiting, answer, result)

        self._gathered.append(_Read(run))
        self._pass_on()
        return await answer

    async def barrier(self) -> None:
        """Return when everything submitted so far is durable."""
        if not self.is_settled:
            await self.read(lambda _: None)

    async def scrub(self) -> None:
        """Leave nothing of deleted rows in the file. Takes as long as copying it; writes wait."""
        await self.read(_scrub)

    async def close(self) -> None:
        """Write what is left, then close the file."""
        if self._thread is not None:
            self._pass_on()
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def _gather(self, turns: int) -> None:
        """Frames that arrived together become results within so many turns of the event loop: the
        thread hears of them together, wakes up once and commits once."""
        if turns > 1:
            self._loop.call_soon(self._gather, turns - 1)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    def _work(self) -> None:
        try:
            while (batch := self._jobs.get()) is not None:
                is_last = self._collect(batch)
                self._run_batch(batch)
                if is_last:
                    return
        except BaseException as error:  # noqa: BLE001  # whatever it is, the engine must hear of it
            self._loop.call_soon_threadsafe(self._on_failure, error)

    def _collect(self, batch: list[_Job]) -> bool:
        """Add what is queued already; True when the store is to close after this batch."""
        while len(batch) < _ENOUGH_PER_COMMIT:
            try:
                jobs = self._jobs.get_nowait()
            except queue.Empty:
                return False
            if jobs is None:
                return True
            batch += jobs
        return False

    def _run_batch(self, batch: Sequence[_Job]) -> None:
        """Commit runs of writes together; a read waits for the writes before it."""
        writes: list[_Write] = []
        for job in batch:
            if isinstance(job, _Write):
                writes.append(job)
            else:
                self._commit(writes)
                writes = []
                job.run(self._connection)
        self._commit(writes)

    def _commit(self, writes: Sequence[_Write]) -> None:
        if not writes:
            return
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for write in writes:
            for row in write.rows:
                for statement in STATEMENTS[type(row)]:
                    execute(statement, row)
        execute("COMMIT")
        self.commits += 1
        self._loop.call_soon_threadsafe(self._release, writes)

    def _release(self, writes: Sequence[_Write]) -> None:
        self._durable += len(writes)
        for write in writes:
            try:
                write.on_durable()
            except Exception:
                _LOGGER.exception("what follows a transaction broke off")


def _connect(path: Path, *, is_strict: bool) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "PRAGMA secure_delete = OFF"
        )  # some builds' default; `scrub` does it at once
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_strict else 'NORMAL'}")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            _create(connection)
    except sqlite3.Error as error:
        raise StoreUnusable(f"{path} cannot be opened as the engine's store: {error}") from error
    if version > VERSION:
        connection.close()
        raise StoreUnusable(
            f"{path} was written by a newer dev engine (schema {version}; this one knows "
            f"{VERSION}): use that engine, or another data directory"
        )
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(f"BEGIN;{TABLES}PRAGMA user_version = {VERSION};COMMIT;")


def _scrub(connection: sqlite3.Connection) -> None:
    """SQLite keeps what was deleted until its place is used again; a copy of the live rows replaces it all."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _answer_if_waiting(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail_if_waiting(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def count_start(connection: sqlite3.Connection) -> int:
    """Which start of an engine on this file this is, from 1."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'starts'").fetchone()
    number = int(row[0]) + 1 if row is not None else 1
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('starts', ?)", (number,))
    return number
