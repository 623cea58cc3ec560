"""Runs, read back from the tables: one at a time, when something asks for it.

The inverse of the rows that `core` writes; no rule is applied here.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, cast

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.instants import from_microseconds
from dex_agents_dex.devengine.core.state import Message, Phase, Progress, Run, StepExecution
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind

_FRAMING_BYTES: Final = 8  # of an event in its page


@frozen
class Beginning:
    """What an engine must know of its store when it starts; idle runs stay on disk."""

    next_run_key: int
    busy_run_keys: tuple[int, ...]  # running, with a method that a Worker has or may take
    timers: tuple[tuple[TimerKey, datetime], ...]  # of all running Flows
    index_names: frozenset[str]


def load_beginning(connection: sqlite3.Connection) -> Beginning:
    (last_run_key,) = connection.execute("SELECT max(run_key) FROM run").fetchone()
    busy = connection.execute(
        "SELECT DISTINCT run_key FROM step WHERE phase != ?", (Phase.WAITING,)
    )
    step_timers = connection.execute(
        "SELECT run_key, step_key, due_us FROM step WHERE due_us IS NOT NULL"
    )
    flow_timers = connection.execute(
        "SELECT run_key, timeout_due_us FROM run WHERE timeout_due_us IS NOT NULL AND status = 1"
    )
    timers = [
        (TimerKey(TimerKind.STEP, run_key, step_key), from_microseconds(due_us))
        for run_key, step_key, due_us in step_timers
    ]
    timers += [
        (TimerKey(TimerKind.FLOW, run_key), from_microseconds(due_us))
        for run_key, due_us in flow_timers
    ]
    names = connection.execute("SELECT name FROM index_name")
    return Beginning(
        next_run_key=(last_run_key or 0) + 1,
        busy_run_keys=tuple(row[0] for row in busy),
        timers=tuple(timers),
        index_names=frozenset(row[0] for row in names),
    )


def find_run_key(connection: sqlite3.Connection, flow_id: str, run_id: str) -> int | None:
    """The named run of a Flow, or its latest; None if there is none."""
    if run_id:
        query = "SELECT run_key FROM run WHERE run_id = ? AND flow_id = ?"
        row = connection.execute(query, (run_id, flow_id)).fetchone()
    else:
        query = "SELECT max(run_key) FROM run WHERE flow_id = ?"
        row = connection.execute(query, (flow_id,)).fetchone()
    return None if row is None else row[0]


def find_run_keys(connection: sqlite3.Connection, flow_id: str) -> list[int]:
    """Every run of a Flow, oldest first."""
    query = "SELECT run_key FROM run WHERE flow_id = ? ORDER BY run_key"
    return [row[0] for row in connection.execute(query, (flow_id,))]


def load_run(connection: sqlite3.Connection, run_key: int) -> Run | None:
    """A run with all its state but the entries of its maps; None if it was dropped."""

    def select(columns: str, table: str, order: str = "") -> list[Any]:
        order_by = f"ORDER BY {order}" if order else ""
        query = f"SELECT {columns} FROM {table} WHERE run_key = ? {order_by}"
        return connection.execute(query, (run_key,)).fetchall()

    found = select(_RUN, "run")
    if not found:
        return None
    run = _run(*found[0])
    _read_attributes(connection, run)
    for sequence, channel, message_id, value in select(
        "sequence, channel, message_id, value", "message", "sequence"
    ):
        message = Message(sequence, message_id, pb.Value.FromString(value))
        run.channels.setdefault(channel, deque()).append(message)
        run.next_message = sequence + 1
    run.counters.update(select("step_type, started", "counter"))
    for row in select(_STEP, "step", "step_key"):
        step = _step(*row)
        run.steps[step.key] = step
        run.next_step_key = step.key + 1
    for (output,) in select("output", "output", "sequence"):
        run.outputs.append(pb.StepCompletionOutput.FromString(output))
    [(last_event,)] = select("max(event_id)", "event")
    run.next_event = (last_event or 0) + 1
    run.blob_sizes.update(select("blob_id, length(value)", "blob"))
    run.indexed.update(row[0] for row in select("DISTINCT attribute_key", "search"))
    return run


def load_attributes(
    connection: sqlite3.Connection, run_key: int, selections: Iterable[str]
) -> dict[str, pb.Value]:
    """The map entries that a run has of `Map/` (all of a map) and `Map/key` selections."""
    found: dict[str, bytes] = {}
    query = "SELECT key, value FROM attribute WHERE run_key = ? AND key >= ? AND key < ?"
    for selection in selections:
        end = _behind(selection) if selection.endswith("/") else f"{selection}\0"
        found.update(connection.execute(query, (run_key, selection, end)))
    return {key: pb.Value.FromString(value) for key, value in found.items()}


def load_all_attributes(connection: sqlite3.Connection, run_key: int) -> dict[str, pb.Value]:
    query = "SELECT key, value FROM attribute WHERE run_key = ?"
    return {key: pb.Value.FromString(value) for key, value in connection.execute(query, (run_key,))}


def load_blobs(connection: sqlite3.Connection, ids: list[tuple[str, str]]) -> dict[str, bytes]:
    """Contents by blob id, of those pairs of Flow id and blob id that exist."""
    found: dict[str, bytes] = {}
    for flow_id, blob_id in ids:
        row = connection.execute(
            "SELECT value FROM blob WHERE blob_id = ? AND flow_id = ?", (blob_id, flow_id)
        ).fetchone()
        if row is not None:
            found[blob_id] = row[0]
    return found


def load_events(
    connection: sqlite3.Connection, run_key: int, first_event_id: int, limit: int, limit_bytes: int
) -> list[bytes]:
    """At least one, if there is one, and then as many as both limits allow."""
    rows = connection.execute(
        "SELECT event FROM event WHERE run_key = ? AND event_id >= ? ORDER BY event_id LIMIT ?",
        (run_key, first_event_id, limit),
    )
    events: list[bytes] = []
    for (event,) in rows:
        limit_bytes -= len(event) + _FRAMING_BYTES
        if events and limit_bytes < 0:
            break
        events.append(event)
    return events


def load_closed_before(connection: sqlite3.Connection, closed_us: int, limit: int) -> list[int]:
    """Keys of runs that closed before an instant, oldest first."""
    query = "SELECT run_key FROM run WHERE closed_us < ? ORDER BY closed_us LIMIT ?"
    return [row[0] for row in connection.execute(query, (closed_us, limit))]


def _read_attributes(connection: sqlite3.Connection, run: Run) -> None:
    """All singletons and the names of the maps, whose entries are stepped over."""
    query = (
        "SELECT key, iif(instr(key, '/'), NULL, value) FROM attribute "
        "WHERE run_key = ? AND key >= ? ORDER BY key LIMIT 1"
    )
    start = ""
    while (row := connection.execute(query, (run.key, start)).fetchone()) is not None:
        key, value = row
        if value is None:
            name = key.partition("/")[0]
            run.attributes.note_stored_map(name)
            start = _behind(f"{name}/")
        else:
            run.attributes.put(key, pb.Value.FromString(value))
            start = f"{key}\0"


def _behind(prefix: str) -> str:
    """The first string behind all that begin with a prefix; keys are in the order of their bytes."""
    return f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}"


_RUN = (
    "run_key, flow_id, run_id, flow_type, request_id, started_us, start, status, error_type, "
    "error_message, closed_us, is_graceful, abandoned"
)
_STEP = (
    "step_key, step_type, number, source, input, options, recovery, phase, "
    "is_handed_out, attempt, first_attempt_us, not_before_us, heartbeat, locals, wait, "
    "waiting_since_us, skipped_timers, conditions"
)


def _run(
    key: int, flow_id: str, run_id: str, flow_type: str, request_id: str, started_us: int,
    start: bytes, status: int, error_type: int, error_message: str, closed_us: int | None,
    is_graceful: int, abandoned: str,
) -> Run:  # fmt: skip
    return Run(
        key=key,
        flow_id=flow_id,
        run_id=run_id,
        flow_type=flow_type,
        request_id=request_id,
        started_at=from_microseconds(started_us),
        start=pb.StartFlowRequest.FromString(start),
        status=cast("pb.FlowStatus", status),
        error_type=cast("pb.FlowErrorType", error_type),
        error_message=error_message,
        closed_at=_instant(closed_us),
        is_graceful=bool(is_graceful),
        abandoned=tuple(abandoned.split("/")) if abandoned else (),
    )


def _step(
    key: int, step_type: str, number: int, source: str, input_: bytes | None, options: bytes,
    recovery: bytes | None, phase: int, is_handed_out: int, attempt: int,
    first_attempt_us: int | None, not_before_us: int | None, heartbeat: bytes | None,
    locals_: bytes | None, wait: bytes | None, waiting_since_us: int | None, skipped_timers: str,
    conditions: bytes | None,
) -> StepExecution:  # fmt: skip
    entries = pb.GetAttributesResponse.FromString(locals_ or b"").attributes
    return StepExecution(
        key=key,
        step_type=step_type,
        number=number,
        source=source,
        input=None if input_ is None else pb.Value.FromString(input_),
        options=pb.StepOptions.FromString(options),
        phase=Phase(phase),
        recovery=None if recovery is None else pb.RecoveryErrorInfo.FromString(recovery),
        progress=Progress.HANDED_OUT if is_handed_out else Progress.NEW,
        attempt=attempt,
        first_attempt_at=_instant(first_attempt_us),
        not_before=_instant(not_before_us),
        heartbeat=None if heartbeat is None else pb.Value.FromString(heartbeat),
        locals={entry.key: entry.value for entry in entries},
        wait=None if wait is None else pb.WaitingCondition.FromString(wait),
        waiting_since=_instant(waiting_since_us),
        skipped_timers={int(index) for index in skipped_timers.split(",") if index},
        conditions=None if conditions is None else pb.ConditionResults.FromString(conditions),
        is_stored=True,
    )


def _instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_microseconds(microseconds)
