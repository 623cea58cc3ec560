"""What one accepted command changes: rows to write, and what follows once they are durable.

A transaction collects; it decides nothing. Rows of Steps and runs are made once, when it is
sealed, so that a Step that starts and is handed out in one transaction costs one row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from attrs import Factory, define, frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.instants import to_microseconds
from dex_agents_dex.devengine.core.state import Offer, Progress, RpcCall, Run, StepExecution


@frozen
class Settings:
    """Limits and choices of one engine."""

    blob_threshold_bytes: int = 64 * 1024  # larger Values are stored once, and travel as ids
    frame_limit_bytes: int = 3_900_000  # below gRPC's 4 MiB, with room for the envelope
    spends_lost_attempts: bool = True  # a task whose Worker vanished before any frame
    rpc_dispatch_timeout: timedelta = timedelta(seconds=10)
    unclaimed_task_timeout: timedelta | None = None  # None: a task waits for a Worker for ever
    map_bytes_in_memory: int = 256 * 1024  # of a Flow's AttributeMaps; the store has all of them


class TimerKind(enum.IntEnum):
    STEP = 1  # a Step's backoff, timers or attempt; it has at most one of them at a time
    FLOW = 2
    RPC = 3


class TimerKey(NamedTuple):
    kind: TimerKind
    run_key: int
    step_key: int = 0
    call: RpcCall | None = None


@frozen(eq=False)
class Need:
    """Map entries that a method or RPC selects and memory does not have: supply them, and go on."""

    run: Run
    subject: StepExecution | RpcCall
    selections: tuple[str, ...]


RpcReply = pb.InvokeRPCResponse | Refusal
DEFAULT_SETTINGS: Final = Settings()


@define(eq=False)
class Transaction:
    """Collects the effects of one command at the instant `now`."""

    now: datetime
    new_id: Callable[[], str]
    settings: Settings = DEFAULT_SETTINGS
    index_names: Collection[str] = ()  # what Workers declared as indexed
    # In order of creation; released by the caller.
    offers: list[Offer] = Factory(list)
    needs: list[Need] = Factory(list)
    timers: dict[TimerKey, datetime | None] = Factory(dict)  # None: cancelled
    cancelled_task_ids: list[str] = Factory(list)
    replies: list[tuple[RpcCall, RpcReply]] = Factory(list)
    changed: dict[int, Run] = Factory(dict)
    # Methods that begin, and asked for nothing yet.
    beginning: list[tuple[Run, StepExecution]] = Factory(list)
    _rows: list[rows.Row] = Factory(list)
    _steps: dict[tuple[int, int], StepExecution] = Factory(dict)
    _runs: dict[int, Run] = Factory(dict)

    def write(self, row: rows.Row) -> None:
        self._rows.append(row)

    def touch_step(self, run: Run, step: StepExecution) -> None:
        self._steps[run.key, step.key] = step

    def drop_step(self, run: Run, step: StepExecution) -> None:
        self._steps.pop((run.key, step.key), None)
        if step.is_stored:
            self._rows.append(rows.DropStep(run.key, step.key))

    def drop_all_steps(self, run: Run) -> None:
        for run_key, step_key in [key for key in self._steps if key[0] == run.key]:
            del self._steps[run_key, step_key]
        self._rows.append(rows.DropSteps(run.key))

    def touch_run(self, run: Run) -> None:
        self._runs[run.key] = run

    def seal(self) -> list[rows.Row]:
        """All rows, in an order in which they can be written. Ends the collecting."""
        for (run_key, _), step in self._steps.items():
            self._rows.append(_step_row(run_key, step))
        for run in self._runs.values():
            self._rows.append(_run_row(run))
        self._steps.clear()
        self._runs.clear()
        return self._rows


def _run_row(run: Run) -> rows.UpdateRun:
    return rows.UpdateRun(
        status=run.status,
        error_type=run.error_type,
        error_message=run.error_message,
        closed_us=_microseconds(run.closed_at),
        is_graceful=run.is_graceful,
        abandoned="/".join(run.abandoned),  # no Step type holds one
        run_key=run.key,
    )


def _step_row(run_key: int, step: StepExecution) -> rows.PutStep | rows.UpdateStep:
    recovery = _serialized(step.recovery)
    changing = (
        int(step.phase),
        step.progress is Progress.HANDED_OUT,
        step.attempt,
        _microseconds(step.first_attempt_at),
        _microseconds(step.not_before),
        _serialized(step.heartbeat),
        _serialized_locals(step),
        _serialized(step.wait),
        _microseconds(step.waiting_since),
        ",".join(map(str, sorted(step.skipped_timers))),
        _serialized(step.conditions),
        _microseconds(step.due),
    )
    if step.is_stored:
        return rows.UpdateStep(recovery, *changing, run_key=run_key, step_key=step.key)
    step.is_stored = True
    return rows.PutStep(
        run_key,
        step.key,
        step.step_type,
        step.number,
        step.source,
        _serialized(step.input),
        step.options.SerializeToString(),
        recovery,
        *changing,
    )


def _serialized_locals(step: StepExecution) -> bytes | None:
    if not step.locals:
        return None
    return pb.GetAttributesResponse(
        attributes=[pb.KV(key=key, value=value) for key, value in step.locals.items()]
    ).SerializeToString()


def _serialized(
    message: pb.Value | pb.RecoveryErrorInfo | pb.WaitingCondition | pb.ConditionResults | None,
) -> bytes | None:
    return None if message is None else message.SerializeToString()


def _microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else to_microseconds(instant)
