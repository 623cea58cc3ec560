"""The store: order, durability, many transactions per commit, and what a failure does."""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.store import Store, StoreUnusable


def _open(path: Path, *, is_strict: bool = True) -> tuple[Store, list[BaseException]]:
    failures: list[BaseException] = []
    return Store.open(path, is_strict=is_strict, on_failure=failures.append), failures


def _attributes(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
    return connection.execute("SELECT key, value FROM attribute ORDER BY key").fetchall()


@pytest.mark.parametrize(("is_strict", "synchronous"), [(True, 2), (False, 1)])
async def test_store__syncs_each_commit_to_disk_only_when_strict(
    tmp_path: Path, is_strict: bool, synchronous: int
) -> None:
    """SQLite: 2 is FULL, an fsync for each commit of the log; 1 is NORMAL, none."""
    store, _ = _open(tmp_path, is_strict=is_strict)
    assert store.load(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (synchronous,)
    assert store.load(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    await store.close()


async def test_store__on_a_full_disk_is_not_called_damaged(tmp_path: Path) -> None:
    store, _ = _open(tmp_path)

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as if the disk had no room for more
        connection.execute("INSERT INTO meta VALUES ('key', ?)", ("x" * 100_000,))

    told = f"^{tmp_path}/engine.sqlite3 cannot be used: database or disk is full$"
    with pytest.raises(StoreUnusable, match=told):
        store.load(fill)
    await store.close()


async def test_store__writes_in_order_and_shares_commits(tmp_path: Path) -> None:
    store, failures = _open(tmp_path)
    released: list[int] = []
    for number in range(100):
        row = rows.PutAttribute(1, "key", str(number).encode())
        store.submit([row], partial(released.append, number))
    was_settled = store.is_settled
    store.start()
    await store.barrier()
    assert (was_settled, store.is_settled) == (False, True)
    assert released == list(range(100))
    assert (store.transactions, store.commits) == (100, 1)
    assert await store.read(_attributes) == [("key", b"99")]
    await store.close()
    assert failures == []


async def test_store__writes_at_its_end_what_it_was_given_just_before(tmp_path: Path) -> None:
    store, _ = _open(tmp_path)
    store.start()
    store.submit([rows.PutAttribute(1, "a", b"1")], lambda: None)
    await store.close()
    again, _ = _open(tmp_path)
    assert again.load(_attributes) == [("a", b"1")]
    await again.close()


async def test_store__a_fault_after_one_transaction_keeps_nothing_from_the_others(
    tmp_path: Path,
) -> None:
    store, failures = _open(tmp_path)
    released: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError("a fault of the engine")

    store.submit([rows.PutAttribute(1, "a", b"1")], fail)
    store.submit([rows.PutAttribute(1, "b", b"2")], lambda: released.append("b"))
    store.start()
    await store.barrier()
    await store.close()
    assert (released, failures) == (["b"], [])


async def test_store__reads_what_was_submitted_before(tmp_path: Path) -> None:
    store, _ = _open(tmp_path)
    store.submit([rows.PutAttribute(1, "a", b"1")], lambda: None)
    first = asyncio.ensure_future(store.read(_attributes))
    await asyncio.wait({first}, timeout=0)  # the read is in line
    store.submit([rows.PutAttribute(1, "b", b"2")], lambda: None)
    store.start()
    assert await first == [("a", b"1")]
    assert await store.read(_attributes) == [("a", b"1"), ("b", b"2")]
    await store.close()


async def test_store__a_failed_read_harms_its_reader_only(tmp_path: Path) -> None:
    store, failures = _open(tmp_path)
    store.start()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store.read(lambda db: db.execute("SELECT * FROM nowhere").fetchall())
    assert await store.read(_attributes) == []
    await store.close()
    assert failures == []


async def test_store__a_failed_write_is_told_and_releases_nothing(tmp_path: Path) -> None:
    store, failures = _open(tmp_path)
    released: list[str] = []
    repeated = (
        rows.PutCounter(1, "Step", 1),
        rows.PutBlob(1, "b", "f", b""),
        rows.PutBlob(1, "b", "f", b""),
    )
    store.submit(repeated, lambda: released.append("never"))
    store.start()
    await store.close()
    assert [type(failure) for failure in failures] == [sqlite3.IntegrityError]
    assert released == []
    again, _ = _open(tmp_path)
    assert again.load(lambda db: db.execute("SELECT count(*) FROM counter").fetchone()) == (0,)
    await again.close()
