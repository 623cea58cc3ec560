"""What the engine holds in memory about one Flow run.

Plain records and the indexes over them; the rules that change them live in the other files.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.attributes import Attributes
from dex_agents_dex.devengine.core.locks import LockTable

TIMEOUT_STEP_TYPE: Final = "sys:timeout_handler"


class Phase(enum.IntEnum):
    WAIT_FOR = 1
    WAITING = 2
    EXECUTE = 3


class Progress(enum.IntEnum):
    """Where the current method stands. Meaningless in phase WAITING."""

    NEW = 0
    BLOCKED = 1  # in line for its locks
    BACKOFF = 2  # until `not_before`
    OFFERED = 3  # a Worker may take it
    HANDED_OUT = 4
    UNSENDABLE = 5  # too large for a frame; fails as soon as its timer fires
    LOADING = 6  # until the map entries that it selects are in memory


class Message(NamedTuple):
    sequence: int
    message_id: str
    value: pb.Value


@define(eq=False)
class StepExecution:
    """One execution of a Step, from its start to its last commit."""

    key: int  # order of execution within the run
    step_type: str
    number: int
    source: str
    input: pb.Value | None
    options: pb.StepOptions
    phase: Phase
    recovery: pb.RecoveryErrorInfo | None = None
    progress: Progress = Progress.NEW
    attempt: int = 1
    first_attempt_at: datetime | None = None
    not_before: datetime | None = None
    heartbeat: pb.Value | None = None
    locals: dict[str, pb.Value] = Factory(dict)
    wait: pb.WaitingCondition | None = None
    waiting_since: datetime | None = None
    skipped_timers: set[int] = Factory(set)
    conditions: pb.ConditionResults | None = None
    is_stored: bool = False
    # In memory only.
    task_id: str = ""
    snapshot: pb.PollWorkerTask | None = None  # kept over the retries of one method
    deadline: datetime | None = None
    last_beat_at: datetime | None = None
    offer: Offer | None = None

    @property
    def id(self) -> str:
        return f"{self.step_type}-{self.number}"

    @property
    def is_timeout_handler(self) -> bool:
        return self.step_type == TIMEOUT_STEP_TYPE

    @property
    def due(self) -> datetime | None:
        """When time alone lets it go on: the end of a backoff, or its earliest unfired timer."""
        if self.phase is not Phase.WAITING:
            return self.not_before
        return min(self.timer_dues(), default=None)

    def timer_dues(self) -> list[datetime]:
        """When each timer of its Wait fires, in declaration order; skipped ones already have."""
        assert self.wait is not None
        assert self.waiting_since is not None
        since = self.waiting_since
        return [
            since
            if index in self.skipped_timers
            else since + timedelta(seconds=timer.duration_seconds)
            for index, timer in enumerate(self.wait.timer_conditions)
        ]

    @property
    def lock_keys(self) -> tuple[str, ...]:
        if self.phase is Phase.WAIT_FOR:
            return tuple(self.options.wait_for_lock_attribute_keys)
        return tuple(self.options.execute_lock_attribute_keys)

    @property
    def attribute_loads(self) -> Sequence[str]:
        """The map entries that the current method selects, as `Map/` or `Map/key`."""
        if self.phase is Phase.WAIT_FOR:
            return self.options.wait_for_load_attribute_map_instances
        return self.options.execute_load_attribute_map_instances

    @property
    def retry_policy(self) -> pb.RetryPolicy:
        if self.phase is Phase.WAIT_FOR:
            return self.options.wait_for_retry_policy
        return self.options.execute_retry_policy


@define(eq=False)
class RpcCall:
    """One RPC between its request and its answer; never stored."""

    request: pb.InvokeRPCRequest
    timeout: timedelta
    snapshot: pb.PollWorkerTask | None = None  # once what it loads is in memory
    task_id: str = ""
    patient_until: datetime | None = None  # a Worker must have taken it by then
    deadline: datetime | None = None
    offer: Offer | None = None

    @property
    def name(self) -> str:
        return self.request.rpc_name

    @property
    def needs_running_flow(self) -> bool:
        return self.request.is_transactional or bool(self.request.lock_attribute_keys)


@define(eq=False)
class Offer:
    """A method or RPC that a Worker may take now. `is_open` turns false when it may not any more."""

    run: Run
    subject: StepExecution | RpcCall
    is_open: bool = True

    @property
    def is_rpc(self) -> bool:
        return isinstance(self.subject, RpcCall)

    @property
    def name(self) -> str:
        """The Step type or RPC name, as a Worker knows it."""
        return self.subject.name if isinstance(self.subject, RpcCall) else self.subject.step_type


@define(eq=False)
class Run:
    """One run of a Flow."""

    key: int
    flow_id: str
    run_id: str
    flow_type: str
    request_id: str
    started_at: datetime
    start: pb.StartFlowRequest  # without its input and Attributes
    status: pb.FlowStatus = pb.FLOW_STATUS_RUNNING
    error_type: pb.FlowErrorType = pb.FLOW_ERROR_TYPE_UNSPECIFIED
    error_message: str = ""
    closed_at: datetime | None = None
    is_graceful: bool = False  # some Step asked for graceful completion
    attributes: Attributes = Factory(Attributes)
    channels: dict[str, deque[Message]] = Factory(dict)  # never an empty queue
    counters: dict[str, int] = Factory(dict)  # Steps started, by type
    steps: dict[int, StepExecution] = Factory(dict)  # current ones, in execution order
    outputs: list[pb.StepCompletionOutput] = Factory(list)
    indexed: set[str] = Factory(set)  # keys of Attributes that searches may name
    abandoned: tuple[str, ...] = ()  # executions that were active when the Flow closed
    blob_sizes: dict[str, int] = Factory(dict)
    next_step_key: int = 1
    next_message: int = 1
    next_event: int = 1
    # In memory only.
    locks: LockTable = Factory(LockTable)
    waiting: dict[int, StepExecution] = field(factory=dict)  # those in phase WAITING
    rpcs: set[RpcCall] = Factory(set)
    sticky_worker: str = ""

    @property
    def is_running(self) -> bool:
        return self.status == pb.FLOW_STATUS_RUNNING

    def channel_size(self, name: str) -> int:
        return len(self.channels.get(name, ()))

    def step_by_id(self, step_execution_id: str) -> StepExecution | None:
        return next((s for s in self.steps.values() if s.id == step_execution_id), None)

    def is_step_active(self, step_type: str, number: int) -> bool:
        return any(s.step_type == step_type and s.number == number for s in self.steps.values())
