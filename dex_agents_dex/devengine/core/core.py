"""The engine's core: every command that may change a run, and the runs themselves.

A command takes a `Transaction`, changes memory at once and fills the transaction; the caller makes
its rows durable, in the order of the commands, before anything it did becomes visible outside. A
command that breaks off half-way raises `BrokenRun`.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import closing, rows, starting
from dex_agents_dex.devengine.core.broken import whole
from dex_agents_dex.devengine.core.closing import close_flow
from dex_agents_dex.devengine.core.errors import UNAVAILABLE_STATUS
from dex_agents_dex.devengine.core.finishing import finish_rpc, finish_step
from dex_agents_dex.devengine.core.inspection import skip_timer
from dex_agents_dex.devengine.core.recovery import resume
from dex_agents_dex.devengine.core.rpcs import fail_rpc, hand_out_rpc, offer_rpc, open_rpc
from dex_agents_dex.devengine.core.settling import settle
from dex_agents_dex.devengine.core.state import Offer, Progress, RpcCall, Run, StepExecution
from dex_agents_dex.devengine.core.steps import (
    attempt_due,
    engine_error,
    fail_attempt,
    hand_out_step,
    offer_step,
    take_back,
)
from dex_agents_dex.devengine.core.timeouts import (
    fire_flow_timer,
    fire_rpc_timer,
    fire_step_timer,
)
from dex_agents_dex.devengine.core.transaction import Need, TimerKey, TimerKind, Transaction
from dex_agents_dex.devengine.core.validation import require_startable
from dex_agents_dex.devengine.core.values import take_in

_Subject: TypeAlias = StepExecution | RpcCall


@define(eq=False)
class Core:
    next_run_key: int = 1
    index_names: set[str] = Factory(set)  # Attributes that Workers declared as indexed
    runs: dict[int, Run] = Factory(dict)  # those in memory
    _latest: dict[str, Run] = Factory(dict)  # by Flow id; absent if that run is not in memory
    _by_run_id: dict[str, Run] = Factory(dict)
    _tasks: dict[str, tuple[Run, _Subject]] = Factory(dict)  # handed out, by task id

    # --- runs ---------------------------------------------------------------------------------

    def add_run(self, run: Run, *, is_latest: bool) -> None:
        self.runs[run.key] = self._by_run_id[run.run_id] = run
        known = self._latest.get(run.flow_id)
        if is_latest and (known is None or known.key < run.key):
            self._latest[run.flow_id] = run

    def forget_run(self, run: Run) -> None:
        """Take a run out of memory; nothing may be under way in it."""
        del self.runs[run.key]
        del self._by_run_id[run.run_id]
        if self._latest.get(run.flow_id) is run:
            del self._latest[run.flow_id]

    def loaded_run(self, flow_id: str, run_id: str = "") -> Run | None:
        """The named run, or the Flow's latest, if it is in memory."""
        if not run_id:
            return self._latest.get(flow_id)
        run = self._by_run_id.get(run_id)
        return run if run is not None and run.flow_id == flow_id else None

    def resume(self, tx: Transaction, run: Run) -> None:
        """Take up a run that was read from the store."""
        with whole(run):
            resume(tx, run)
            self._drop_cancelled(tx)

    def expel(self, run: Run) -> tuple[RpcCall, ...]:
        """Take a broken run out of memory, with all that is under way; its RPCs are returned."""
        for step in run.steps.values():
            self._tasks.pop(step.task_id, None)
            if step.offer is not None:
                step.offer.is_open = False
        for call in run.rpcs:
            self._tasks.pop(call.task_id, None)
            if call.offer is not None:
                call.offer.is_open = False
        if self.runs.get(run.key) is run:
            self.forget_run(run)
        return tuple(run.rpcs)

    def drop_run(self, tx: Transaction, run: Run) -> tuple[RpcCall, ...]:
        """Forget a run and all that it stored, whatever it does; the RPCs that it leaves open are returned."""
        if run.is_running:
            with whole(run):
                close_flow(tx, run, pb.FLOW_STATUS_TERMINATED)
                self._drop_cancelled(tx)
        tx.write(rows.DropRun(run.key))
        return self.expel(run)

    # --- clients ------------------------------------------------------------------------------

    def start_flow(self, tx: Transaction, request: pb.StartFlowRequest) -> Run:
        """The new run, or the one of which this is a repeat. The latest one is in memory."""
        require_startable(request)
        previous = self._latest.get(request.flow_id)
        if previous is not None:
            if starting.is_same_start(request, previous):
                return previous
            policy = request.flow_start_options.id_reuse_policy
            if not starting.allows_new_run(policy, previous):
                raise starting.already_started(previous)
            if previous.is_running:
                with whole(previous):
                    close_flow(tx, previous, pb.FLOW_STATUS_TERMINATED)
        run = starting.start_run(tx, self.next_run_key, request)
        self.next_run_key += 1
        self.add_run(run, is_latest=True)
        with whole(run):
            self._settle(tx, run)
        return run

    def stop_flow(self, tx: Transaction, run: Run, request: pb.StopFlowRequest) -> None:
        with whole(run):
            closing.stop_flow(tx, run, request)
            self._settle(tx, run)

    def open_rpc(self, tx: Transaction, run: Run, request: pb.InvokeRPCRequest) -> RpcCall:
        with whole(run):
            return open_rpc(tx, run, request)

    def go_on(self, tx: Transaction, need: Need) -> None:
        """Offer what waited for map entries, which its run was supplied with just now."""
        run, subject = need.run, need.subject
        if self.runs.get(run.key) is not run:
            return
        with whole(run):
            if isinstance(subject, RpcCall):
                if subject in run.rpcs:
                    offer_rpc(tx, run, subject)
            elif subject.key in run.steps and subject.progress is Progress.LOADING:
                offer_step(tx, run, subject)
            self._settle(tx, run)

    def skip_timer(self, tx: Transaction, run: Run, request: pb.SkipTimerRequest) -> None:
        with whole(run):
            skip_timer(tx, run, request)
            self._settle(tx, run)

    def declare_indexes(self, tx: Transaction, request: pb.SyncAttributeIndexRequest) -> None:
        for name, kind in request.attribute_indexes.items():
            if name not in self.index_names:
                self.index_names.add(name)
                tx.write(rows.PutIndexName(name, kind))

    # --- Workers ------------------------------------------------------------------------------

    @property
    def tasks_in_flight(self) -> int:
        return len(self._tasks)

    @property
    def map_bytes_in_memory(self) -> int:
        return sum(run.attributes.size_bytes for run in self.runs.values())

    def is_in_flight(self, task_id: str) -> bool:
        return task_id in self._tasks

    def hand_out(self, tx: Transaction, offer: Offer) -> pb.PollWorkerTask:
        """Mark an open offer as taken; the task may be sent once `tx` is durable."""
        run, subject = offer.run, offer.subject
        offer.is_open = False
        task = (
            hand_out_rpc(tx, run, subject)
            if isinstance(subject, RpcCall)
            else hand_out_step(tx, run, subject)
        )
        self._tasks[subject.task_id] = run, subject
        return task

    def heartbeat(self, tx: Transaction, task_id: str, beat: pb.StepMethodHeartbeat | None) -> None:
        """Note progress of a Step. A beat sets or clears the value for the next attempt."""
        step = self._step_in_flight(task_id)
        if step is None:
            return
        run, _ = self._tasks[task_id]
        step.last_beat_at = tx.now
        if beat is not None:
            value = take_in(tx, run, beat.value) if beat.HasField("value") else None
            if value != step.heartbeat:
                step.heartbeat = value
                tx.touch_step(run, step)

    def renew_beats(self, tx: Transaction) -> None:
        """Count every attempt in flight as heard of now."""
        for run, subject in self._tasks.values():
            if isinstance(subject, StepExecution):
                subject.last_beat_at = tx.now
                tx.timers[TimerKey(TimerKind.STEP, run.key, subject.key)] = attempt_due(subject)

    def stream_source(self, task_id: str) -> tuple[Run, str] | None:
        """The run and Step execution id of a task in flight; None for a late or unknown one."""
        step = self._step_in_flight(task_id)
        return None if step is None else (self._tasks[task_id][0], step.id)

    def finish(self, tx: Transaction, worker_id: str, frame: pb.PollWorkerTaskFrame) -> None:
        """Apply a final frame; one of a late or unknown task changes nothing."""
        entry = self._tasks.pop(frame.task_id, None)
        if entry is None:
            return
        run, subject = entry
        run.sticky_worker = worker_id
        with whole(run):
            if isinstance(subject, RpcCall):
                finish_rpc(tx, run, subject, frame)
            else:
                finish_step(tx, run, subject, frame)
            self._settle(tx, run)

    def take_back(self, tx: Transaction, task_id: str) -> None:
        """A task that surely never started goes to another Worker, as the same attempt."""
        entry = self._tasks.pop(task_id, None)
        if entry is None:
            return
        run, subject = entry
        with whole(run):
            if isinstance(subject, RpcCall):
                offer_rpc(tx, run, subject)
            else:
                take_back(tx, run, subject)

    def cut(self, tx: Transaction, task_id: str, worker_id: str, *, has_frames: bool) -> None:
        """The Worker of a task vanished."""
        entry = self._tasks.get(task_id)
        if entry is None:
            return
        run, subject = entry
        if isinstance(subject, StepExecution) and not (
            has_frames or tx.settings.spends_lost_attempts
        ):
            self.take_back(tx, task_id)
            return
        del self._tasks[task_id]
        detail = f"Worker {worker_id!r} disconnected while it ran {_name(subject)}"
        error = engine_error("WorkerDisconnected", detail, UNAVAILABLE_STATUS)
        with whole(run):
            if isinstance(subject, RpcCall):
                fail_rpc(tx, run, subject, error)
            else:
                fail_attempt(tx, run, subject, error)
            self._settle(tx, run)

    # --- time ---------------------------------------------------------------------------------

    def fire_timer(self, tx: Transaction, key: TimerKey) -> None:
        run = self.runs.get(key.run_key)
        if run is None:
            return
        with whole(run):
            if key.kind is TimerKind.RPC:
                if key.call in run.rpcs and key.call is not None:
                    fire_rpc_timer(tx, run, key.call)
            elif key.kind is TimerKind.FLOW:
                if run.is_running:
                    fire_flow_timer(tx, run)
            elif (step := run.steps.get(key.step_key)) is not None:
                fire_step_timer(tx, run, step)
            self._settle(tx, run)

    def _settle(self, tx: Transaction, run: Run) -> None:
        settle(tx, run)
        self._drop_cancelled(tx)
        run.attributes.shrink(tx.settings.map_bytes_in_memory)

    def _drop_cancelled(self, tx: Transaction) -> None:
        for task_id in tx.cancelled_task_ids:
            self._tasks.pop(task_id, None)

    def _step_in_flight(self, task_id: str) -> StepExecution | None:
        entry = self._tasks.get(task_id)
        return entry[1] if entry is not None and isinstance(entry[1], StepExecution) else None


def _name(subject: _Subject) -> str:
    return f"RPC {subject.name!r}" if isinstance(subject, RpcCall) else subject.id
