"""StartFlow: whether an id may be used again, and the first transaction of a run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import history, rows
from dex_agents_dex.devengine.core.changes import write_attributes
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.instants import to_microseconds
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.steps import start_step
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind, Transaction

START_SOURCE: Final = "__start__"
_ABNORMAL: Final = (
    pb.FLOW_STATUS_FAILED,
    pb.FLOW_STATUS_CANCELED,
    pb.FLOW_STATUS_TERMINATED,
)


def is_same_start(request: pb.StartFlowRequest, previous: Run) -> bool:
    """Whether a refused start is a repeat that shall be answered with the run it began."""
    options = request.flow_start_options.flow_already_started_options
    return options.ignore_already_started_error and request.request_id == previous.request_id


def allows_new_run(policy: pb.IdReusePolicy, previous: Run) -> bool:
    """Whether the id of a closed or running `previous` may start again, terminating it if need be."""
    if policy == pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING:
        return True
    if previous.is_running:
        return False
    if policy == pb.ID_REUSE_POLICY_ALLOW_IF_NO_RUNNING:
        return True
    if policy == pb.ID_REUSE_POLICY_ALLOW_IF_PREVIOUS_EXISTS_ABNORMALLY:
        return previous.status in _ABNORMAL
    return False


def already_started(previous: Run) -> Refusal:
    return Refusal(
        "ALREADY_EXISTS",
        f"Flow {previous.flow_id!r} was already started",
        pb.ERROR_SUB_STATUS_FLOW_ALREADY_STARTED,
    )


def start_run(tx: Transaction, run_key: int, request: pb.StartFlowRequest) -> Run:
    run = Run(
        key=run_key,
        flow_id=request.flow_id,
        run_id=tx.new_id(),
        flow_type=request.flow_type,
        request_id=request.request_id,
        started_at=tx.now,
        start=_without_payload(request),
    )
    delay = timedelta(seconds=request.flow_start_options.flow_start_delay_seconds)
    timeout_due: datetime | None = None
    if request.flow_timeout_seconds:
        timeout_due = tx.now + delay + timedelta(seconds=request.flow_timeout_seconds)
        tx.timers[TimerKey(TimerKind.FLOW, run.key)] = timeout_due
    tx.write(
        rows.PutRun(
            run.key,
            run.flow_id,
            run.run_id,
            run.flow_type,
            run.request_id,
            to_microseconds(tx.now),
            None if timeout_due is None else to_microseconds(timeout_due),
            run.start.SerializeToString(),
        )
    )
    history.record_started(tx, run)
    write_attributes(tx, run, request.flow_start_options.attributes)
    if request.start_step_type:
        movement = pb.StepMovement(
            step_type=request.start_step_type,
            step_input=request.step_input,
            step_options=request.step_options,
        )
        start_step(tx, run, movement, START_SOURCE, delay=delay)
    return run


def _without_payload(request: pb.StartFlowRequest) -> pb.StartFlowRequest:
    """What a run must remember of its start: timeouts, policies, configuration."""
    kept = pb.StartFlowRequest()
    kept.CopyFrom(request)
    kept.ClearField("step_input")
    kept.ClearField("step_options")
    kept.flow_start_options.ClearField("attributes")
    return kept
