"""The SQLite tables of the dev engine, and the statement behind each row class.

No connection is opened here.
"""

from __future__ import annotations

from typing import Final

from dex_agents_dex.devengine.core import rows

VERSION: Final = 1

TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE run (
    run_key INTEGER PRIMARY KEY,
    flow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    flow_type TEXT NOT NULL,
    request_id TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    timeout_due_us INTEGER,
    start BLOB NOT NULL,
    status INTEGER NOT NULL DEFAULT 1,
    error_type INTEGER NOT NULL DEFAULT 0,
    error_message TEXT NOT NULL DEFAULT '',
    closed_us INTEGER,
    is_graceful INTEGER NOT NULL DEFAULT 0,
    abandoned TEXT NOT NULL DEFAULT ''
);
CREATE INDEX run_of_flow ON run (flow_id, run_key);
CREATE INDEX run_by_id ON run (run_id);
CREATE INDEX closed_run ON run (closed_us) WHERE closed_us IS NOT NULL;
CREATE INDEX timed_run ON run (timeout_due_us) WHERE timeout_due_us IS NOT NULL AND status = 1;
CREATE TABLE attribute (
    run_key INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (run_key, key)
) WITHOUT ROWID;
CREATE TABLE message (
    run_key INTEGER NOT NULL, sequence INTEGER NOT NULL, channel TEXT NOT NULL,
    message_id TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (run_key, sequence)
) WITHOUT ROWID;
CREATE TABLE counter (
    run_key INTEGER NOT NULL, step_type TEXT NOT NULL, started INTEGER NOT NULL,
    PRIMARY KEY (run_key, step_type)
) WITHOUT ROWID;
CREATE TABLE step (
    run_key INTEGER NOT NULL,
    step_key INTEGER NOT NULL,
    step_type TEXT NOT NULL,
    number INTEGER NOT NULL,
    source TEXT NOT NULL,
    input BLOB,
    options BLOB NOT NULL,
    recovery BLOB,
    phase INTEGER NOT NULL,
    is_handed_out INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    first_attempt_us INTEGER,
    not_before_us INTEGER,
    heartbeat BLOB,
    locals BLOB,
    wait BLOB,
    waiting_since_us INTEGER,
    skipped_timers TEXT NOT NULL,
    conditions BLOB,
    due_us INTEGER,
    PRIMARY KEY (run_key, step_key)
) WITHOUT ROWID;
CREATE TABLE output (
    run_key INTEGER NOT NULL, sequence INTEGER NOT NULL, output BLOB NOT NULL,
    PRIMARY KEY (run_key, sequence)
) WITHOUT ROWID;
CREATE TABLE event (
    run_key INTEGER NOT NULL, event_id INTEGER NOT NULL, event BLOB NOT NULL,
    PRIMARY KEY (run_key, event_id)
) WITHOUT ROWID;
CREATE TABLE blob (
    run_key INTEGER NOT NULL, blob_id TEXT NOT NULL, flow_id TEXT NOT NULL, value BLOB NOT NULL,
    UNIQUE (blob_id)
);
CREATE INDEX blob_of_run ON blob (run_key);
CREATE TABLE search (
    run_key INTEGER NOT NULL, attribute_key TEXT NOT NULL, position INTEGER NOT NULL,
    index_key TEXT NOT NULL, value,
    PRIMARY KEY (run_key, attribute_key, position)
) WITHOUT ROWID;
CREATE INDEX search_by_value ON search (index_key, value);
CREATE TABLE index_name (name TEXT PRIMARY KEY, type INTEGER NOT NULL) WITHOUT ROWID;
"""

_PER_RUN_TABLES: Final = (
    "run",
    "attribute",
    "message",
    "counter",
    "step",
    "output",
    "event",
    "blob",
    "search",
)

_RUN_CHANGES: Final = (
    "status = ?, error_type = ?, error_message = ?, closed_us = ?, is_graceful = ?, abandoned = ?"
)

_STEP_CHANGES: Final = (
    "recovery = ?, phase = ?, is_handed_out = ?, attempt = ?, first_attempt_us = ?, "
    "not_before_us = ?, heartbeat = ?, locals = ?, wait = ?, waiting_since_us = ?, "
    "skipped_timers = ?, conditions = ?, due_us = ?"
)


def _insert(table: str, row: type[tuple[object, ...]], *, verb: str = "INSERT") -> str:
    fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]  # every row is a NamedTuple
    return f"{verb} INTO {table} ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})"


STATEMENTS: Final[dict[type, tuple[str, ...]]] = {
    rows.PutRun: (_insert("run", rows.PutRun),),
    rows.UpdateRun: (f"UPDATE run SET {_RUN_CHANGES} WHERE run_key = ?",),
    rows.DropRun: tuple(f"DELETE FROM {table} WHERE run_key = ?" for table in _PER_RUN_TABLES),
    rows.PutAttribute: (_insert("attribute", rows.PutAttribute, verb="INSERT OR REPLACE"),),
    rows.DropAttribute: ("DELETE FROM attribute WHERE run_key = ? AND key = ?",),
    rows.PutMessage: (_insert("message", rows.PutMessage),),
    rows.DropMessage: ("DELETE FROM message WHERE run_key = ? AND sequence = ?",),
    rows.PutCounter: (_insert("counter", rows.PutCounter, verb="INSERT OR REPLACE"),),
    rows.PutStep: (_insert("step", rows.PutStep),),
    rows.UpdateStep: (f"UPDATE step SET {_STEP_CHANGES} WHERE run_key = ? AND step_key = ?",),
    rows.DropStep: ("DELETE FROM step WHERE run_key = ? AND step_key = ?",),
    rows.DropSteps: ("DELETE FROM step WHERE run_key = ?",),
    rows.PutOutput: (_insert("output", rows.PutOutput),),
    rows.PutEvent: (_insert("event", rows.PutEvent),),
    rows.PutBlob: (_insert("blob", rows.PutBlob),),
    rows.PutIndex: (_insert("search", rows.PutIndex, verb="INSERT OR REPLACE"),),
    rows.PutIndexName: (_insert("index_name", rows.PutIndexName, verb="INSERT OR REPLACE"),),
    rows.DropIndex: ("DELETE FROM search WHERE run_key = ? AND attribute_key = ?",),
}
