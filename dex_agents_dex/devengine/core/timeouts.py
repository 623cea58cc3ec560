"""What happens when a timer fires: backoffs end, Waits are looked at, attempts and Flows time out.

A timer that no longer means anything is ignored, so that callers need not be exact.
"""

from __future__ import annotations

from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.closing import close_flow, fail_flow
from dex_agents_dex.devengine.core.errors import DEADLINE_EXCEEDED_STATUS, UNAVAILABLE_STATUS
from dex_agents_dex.devengine.core.rpcs import fail_rpc
from dex_agents_dex.devengine.core.settling import set_wait_timer
from dex_agents_dex.devengine.core.state import (
    TIMEOUT_STEP_TYPE,
    Phase,
    Progress,
    RpcCall,
    Run,
    StepExecution,
)
from dex_agents_dex.devengine.core.steps import (
    attempt_due,
    begin_method,
    engine_error,
    fail_attempt,
    heartbeat_timeout,
    method_timeout,
    offer_step,
    oversize_of_step,
    start_step,
)
from dex_agents_dex.devengine.core.transaction import TimerKey, TimerKind, Transaction

TIMEOUT_SOURCE: Final = "__timeout__"


def fire_step_timer(tx: Transaction, run: Run, step: StepExecution) -> None:
    key = TimerKey(TimerKind.STEP, run.key, step.key)
    if step.phase is Phase.WAITING:
        set_wait_timer(tx, run, step)
    elif step.progress is Progress.BACKOFF:
        if step.not_before is not None and step.not_before > tx.now:
            tx.timers[key] = step.not_before
        elif step.attempt == 1:
            begin_method(tx, run, step, step.phase)
        else:
            offer_step(tx, run, step)
    elif step.progress is Progress.HANDED_OUT:
        due = attempt_due(step)
        if due > tx.now:
            tx.timers[key] = due
        else:
            tx.cancelled_task_ids.append(step.task_id)
            fail_attempt(tx, run, step, _attempt_timeout(tx, step))
    elif step.progress is Progress.UNSENDABLE:
        problem = oversize_of_step(tx, run, step) or "the task was too large"
        step.snapshot = None  # the next attempt looks again: the run may have shrunk
        fail_attempt(tx, run, step, engine_error("TaskTooLarge", problem))
    elif step.progress is Progress.OFFERED and tx.settings.unclaimed_task_timeout is not None:
        detail = f"no Worker took {step.id} within {tx.settings.unclaimed_task_timeout}"
        fail_attempt(tx, run, step, engine_error("NoWorker", detail, UNAVAILABLE_STATUS))


def fire_rpc_timer(tx: Transaction, run: Run, call: RpcCall) -> None:
    if call.task_id:
        fail_rpc(tx, run, call, rpc_timeout(call))
    else:
        patience = min(call.timeout, tx.settings.rpc_dispatch_timeout)
        detail = f"no Worker took RPC {call.name!r} within {patience.total_seconds():g} s"
        fail_rpc(tx, run, call, engine_error("NoWorker", detail, UNAVAILABLE_STATUS))


def fire_flow_timer(tx: Transaction, run: Run) -> None:
    policy = run.start.flow_timeout_policy
    if policy == pb.FLOW_TIMEOUT_POLICY_CANCEL:
        close_flow(tx, run, pb.FLOW_STATUS_CANCELED)
    elif policy == pb.FLOW_TIMEOUT_POLICY_HANDLER:
        if TIMEOUT_STEP_TYPE not in run.counters:
            movement = pb.StepMovement(
                step_type=TIMEOUT_STEP_TYPE,
                step_options=_handler_step_options(
                    run.start.flow_start_options.timeout_handler_options
                ),
            )
            start_step(tx, run, movement, TIMEOUT_SOURCE)
    else:
        message = f"Flow timed out after {run.start.flow_timeout_seconds} seconds"
        fail_flow(tx, run, pb.FLOW_ERROR_TYPE_FLOW_TIMEOUT, message)


def method_deadline_error(step: StepExecution) -> pb.WorkerErrorResponse:
    method = "wait_for" if step.phase is Phase.WAIT_FOR else "execute"
    detail = f"{method} timeout: {step.id} gave no result within {method_timeout(step)}"
    return engine_error("MethodTimeout", detail, DEADLINE_EXCEEDED_STATUS)


def rpc_timeout(call: RpcCall) -> pb.WorkerErrorResponse:
    detail = f"RPC timeout: {call.name!r} gave no result within {call.timeout}"
    return engine_error("MethodTimeout", detail, DEADLINE_EXCEEDED_STATUS)


def _attempt_timeout(tx: Transaction, step: StepExecution) -> pb.WorkerErrorResponse:
    if step.deadline is not None and step.deadline <= tx.now:
        return method_deadline_error(step)
    detail = f"heartbeat timeout: {step.id} showed no progress within {heartbeat_timeout(step)}"
    return engine_error("HeartbeatTimeout", detail, DEADLINE_EXCEEDED_STATUS)


def _handler_step_options(options: pb.FlowTimeoutHandlerOptions) -> pb.StepOptions:
    step_options = pb.StepOptions(
        skip_wait_for=True,
        execute_timeout_seconds=options.method_timeout_seconds,
        heartbeat_timeout_seconds=options.heartbeat_timeout_seconds,
        execute_failure_policy=options.failure_policy,
        execute_failure_proceed_step_type=options.failure_proceed_step_type,
        execute_lock_attribute_keys=options.lock_attribute_keys,
        execute_load_attribute_map_instances=options.load_attribute_map_instances,
        execute_load_channel_names=options.load_channel_names,
        execute_load_channel_map_instances=options.load_channel_map_instances,
    )
    if options.HasField("retry_policy"):
        step_options.execute_retry_policy.CopyFrom(options.retry_policy)
    if options.HasField("failure_proceed_step_options"):
        step_options.execute_failure_proceed_step_options.CopyFrom(
            options.failure_proceed_step_options
        )
    return step_options
