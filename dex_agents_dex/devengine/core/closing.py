"""How a run ends: completion, failure, cancellation, termination, timeout.

Closing drops every Step, lock and open RPC that needs a running Flow; Attributes stay readable.
"""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import history
from dex_agents_dex.devengine.core.errors import invalid, not_running
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind, Transaction


def close_flow(
    tx: Transaction,
    run: Run,
    status: pb.FlowStatus,
    error_type: pb.FlowErrorType = pb.FLOW_ERROR_TYPE_UNSPECIFIED,
    message: str = "",
) -> None:
    run.status = status
    run.error_type = error_type
    run.error_message = message
    run.closed_at = tx.now
    run.abandoned = tuple(step.id for step in run.steps.values())
    for step in run.steps.values():
        if step.task_id:
            tx.cancelled_task_ids.append(step.task_id)
            step.task_id = ""
        if step.offer is not None:
            step.offer.is_open = False
        tx.timers[TimerKey(TimerKind.STEP, run.key, step.key)] = None
    tx.timers[TimerKey(TimerKind.FLOW, run.key)] = None
    tx.beginning = [pair for pair in tx.beginning if pair[0] is not run]
    if run.steps:
        tx.drop_all_steps(run)
    run.steps.clear()
    run.waiting.clear()
    run.locks.clear()
    tx.touch_run(run)
    tx.changed[run.key] = run
    history.record_closed(tx, run)


def fail_flow(tx: Transaction, run: Run, error_type: pb.FlowErrorType, message: str) -> None:
    close_flow(tx, run, pb.FLOW_STATUS_FAILED, error_type, message)


def stop_flow(tx: Transaction, run: Run, request: pb.StopFlowRequest) -> None:
    """Close a running Flow on a client's behalf; raise `Refusal` if it is closed already."""
    if not run.is_running:
        raise not_running(run.flow_id)
    kind = request.stop_type
    if kind in (pb.STOP_TYPE_UNSPECIFIED, pb.STOP_TYPE_CANCEL):
        close_flow(tx, run, pb.FLOW_STATUS_CANCELED)
    elif kind == pb.STOP_TYPE_TERMINATE:
        close_flow(tx, run, pb.FLOW_STATUS_TERMINATED)
    elif kind == pb.STOP_TYPE_FAIL:
        reason = request.reason or "fail by client"
        fail_flow(tx, run, pb.FLOW_ERROR_TYPE_CLIENT_API_FAILING_FLOW, reason)
    else:
        raise invalid(f"unknown stop type {kind}")
