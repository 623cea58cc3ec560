"""Runs, read back from the tables.

The inverse of the rows that `core` writes; no rule is applied here.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.instants import from_microseconds
from dex_agents_dex.devengine.core.state import Message, Phase, Progress, Run, StepExecution


def load_runs(connection: sqlite3.Connection) -> list[Run]:
    """Every run, oldest first, with all its state."""
    found = {
        run.key: run
        for run in map(_run, connection.execute(f"SELECT {_RUN} FROM run ORDER BY run_key"))
    }
    for run_key, key, value in _all(connection, "run_key, key, value FROM attribute"):
        found[run_key].attributes.put(key, pb.Value.FromString(value))
    _load_messages(connection, found)
    for run_key, step_type, started in _all(connection, "run_key, step_type, started FROM counter"):
        found[run_key].counters[step_type] = started
    for run_key, *fields in _all(connection, f"{_STEP} FROM step ORDER BY run_key, step_key"):
        step = _step(*fields)
        run = found[run_key]
        run.steps[step.key] = step
        run.next_step_key = step.key + 1
    for run_key, output in _all(
        connection, "run_key, output FROM output ORDER BY run_key, sequence"
    ):
        found[run_key].outputs.append(pb.StepCompletionOutput.FromString(output))
    for run_key, last in _all(connection, "run_key, max(event_id) FROM event GROUP BY run_key"):
        found[run_key].next_event = last + 1
    for run_key, blob_id, size in _all(connection, "run_key, blob_id, length(value) FROM blob"):
        found[run_key].blob_sizes[blob_id] = size
    return list(found.values())


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
    connection: sqlite3.Connection, run_key: int, first_event_id: int, limit: int
) -> list[bytes]:
    rows = connection.execute(
        "SELECT event FROM event WHERE run_key = ? AND event_id >= ? ORDER BY event_id LIMIT ?",
        (run_key, first_event_id, limit),
    )
    return [row[0] for row in rows]


_RUN = (
    "run_key, flow_id, run_id, flow_type, request_id, started_us, start, status, error_type, "
    "error_message, closed_us, is_graceful"
)
_STEP = (
    "run_key, step_key, step_type, number, source, input, options, recovery, phase, "
    "is_handed_out, attempt, first_attempt_us, not_before_us, heartbeat, locals, wait, "
    "waiting_since_us, skipped_timers, conditions"
)


def _all(connection: sqlite3.Connection, select: str) -> Iterator[Any]:
    return connection.execute(f"SELECT {select}")


def _run(row: Any) -> Run:
    (key, flow_id, run_id, flow_type, request_id, started_us, start, status, error_type,
     error_message, closed_us, is_graceful) = row  # fmt: skip
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
    )


def _load_messages(connection: sqlite3.Connection, found: dict[int, Run]) -> None:
    select = "run_key, sequence, channel, message_id, value FROM message ORDER BY run_key, sequence"
    for run_key, sequence, channel, message_id, value in _all(connection, select):
        run = found[run_key]
        message = Message(sequence, message_id, pb.Value.FromString(value))
        run.channels.setdefault(channel, deque()).append(message)
        run.next_message = sequence + 1


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
