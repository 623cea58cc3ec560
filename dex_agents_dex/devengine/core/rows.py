"""The rows that a transaction writes, one class per statement; each is the statement's parameters.

A row is a plain tuple, so that a store can bind it as it is. No SQL lives here. Suffix `_us`:
microseconds since 1970. Byte fields hold serialized protobuf messages.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class PutRun(NamedTuple):
    run_key: int
    flow_id: str
    run_id: str
    flow_type: str
    request_id: str
    started_us: int
    timeout_due_us: int | None
    start: bytes


class UpdateRun(NamedTuple):
    status: int
    error_type: int
    error_message: str
    closed_us: int | None
    is_graceful: bool
    abandoned: str
    run_key: int


class DropRun(NamedTuple):
    run_key: int


class PutAttribute(NamedTuple):
    run_key: int
    key: str
    value: bytes


class DropAttribute(NamedTuple):
    run_key: int
    key: str


class PutMessage(NamedTuple):
    run_key: int
    sequence: int
    channel: str
    message_id: str
    value: bytes


class DropMessage(NamedTuple):
    run_key: int
    sequence: int


class PutCounter(NamedTuple):
    run_key: int
    step_type: str
    started: int


class PutStep(NamedTuple):
    run_key: int
    step_key: int
    step_type: str
    number: int
    source: str
    input: bytes | None
    options: bytes
    recovery: bytes | None
    phase: int
    is_handed_out: bool
    attempt: int
    first_attempt_us: int | None
    not_before_us: int | None
    heartbeat: bytes | None
    locals: bytes | None
    wait: bytes | None
    waiting_since_us: int | None
    skipped_timers: str
    conditions: bytes | None
    due_us: int | None


class UpdateStep(NamedTuple):
    recovery: bytes | None
    phase: int
    is_handed_out: bool
    attempt: int
    first_attempt_us: int | None
    not_before_us: int | None
    heartbeat: bytes | None
    locals: bytes | None
    wait: bytes | None
    waiting_since_us: int | None
    skipped_timers: str
    conditions: bytes | None
    due_us: int | None
    run_key: int
    step_key: int


class DropStep(NamedTuple):
    run_key: int
    step_key: int


class DropSteps(NamedTuple):
    run_key: int


class PutOutput(NamedTuple):
    run_key: int
    sequence: int
    output: bytes


class PutEvent(NamedTuple):
    run_key: int
    event_id: int
    event: bytes


class PutBlob(NamedTuple):
    run_key: int
    blob_id: str
    flow_id: str
    value: bytes


class PutIndex(NamedTuple):
    run_key: int
    attribute_key: str
    position: int
    index_key: str
    value: str | int | float


class PutIndexName(NamedTuple):
    name: str
    type: int


class DropIndex(NamedTuple):
    run_key: int
    attribute_key: str


Row: TypeAlias = (
    PutRun
    | UpdateRun
    | DropRun
    | PutAttribute
    | DropAttribute
    | PutMessage
    | DropMessage
    | PutCounter
    | PutStep
    | UpdateStep
    | DropStep
    | DropSteps
    | PutOutput
    | PutEvent
    | PutBlob
    | PutIndex
    | PutIndexName
    | DropIndex
)
