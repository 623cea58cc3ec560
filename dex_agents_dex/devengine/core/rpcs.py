"""RPCs on a run: opening one, and what its handler's result does.

An RPC lives in memory only: its effects are one transaction, or none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import history
from dex_agents_dex.devengine.core.changes import (
    delete_messages,
    publish,
    require_messages,
    write_attributes,
)
from dex_agents_dex.devengine.core.errors import (
    MalformedResult,
    Refusal,
    invalid,
    not_running,
    worker_failed,
)
from dex_agents_dex.devengine.core.instants import set_instant
from dex_agents_dex.devengine.core.invocations import oversize, rpc_snapshot
from dex_agents_dex.devengine.core.results import cancel_steps, require_movements, start_steps
from dex_agents_dex.devengine.core.state import Offer, RpcCall, Run
from dex_agents_dex.devengine.core.steps import engine_error
from dex_agents_dex.devengine.core.transaction import (
    Need,
    RpcReply,
    TimerKey,
    TimerKind,
    Transaction,
)

_DEFAULT_TIMEOUT: Final = timedelta(seconds=60)
# The Worker stops at the deadline by itself; its own report, a moment later, is the better one.
_DEADLINE_GRACE: Final = timedelta(milliseconds=500)


def open_rpc(tx: Transaction, run: Run, request: pb.InvokeRPCRequest) -> RpcCall:
    """Take the locks and offer the RPC; raise `Refusal` when it may not run now."""
    if not request.rpc_name:
        raise invalid("InvokeRPC needs an rpc_name")
    if request.timeout_seconds < 0:
        raise invalid("a timeout must not be negative")
    call = RpcCall(request, timedelta(seconds=request.timeout_seconds) or _DEFAULT_TIMEOUT)
    if call.needs_running_flow and not run.is_running:
        raise not_running(run.flow_id)
    if not run.locks.try_acquire(call, request.lock_attribute_keys):
        raise Refusal(
            "ABORTED",
            f"an Attribute lock that RPC {request.rpc_name!r} needs is taken",
            pb.ERROR_SUB_STATUS_WORKER_API_ERROR,
        )
    run.rpcs.add(call)
    offer_rpc(tx, run, call)
    return call


def offer_rpc(tx: Transaction, run: Run, call: RpcCall) -> None:
    """Let Workers take the RPC, once it has what it loads and for as long as it waits for one."""
    call.task_id = ""
    if call.snapshot is None:
        missing = run.attributes.missing(call.request.load_attribute_map_instances)
        if missing:
            tx.needs.append(Need(run, call, missing))
            return
        call.snapshot = rpc_snapshot(run, call.request)
        subject = f"RPC {call.name}"
        problem = oversize(run, call.snapshot, subject, tx.settings.frame_limit_bytes)
        if problem is not None:
            fail_rpc(tx, run, call, engine_error("TaskTooLarge", problem))
            return
    call.offer = Offer(run, call)
    tx.offers.append(call.offer)
    if call.patient_until is None:
        call.patient_until = tx.now + min(call.timeout, tx.settings.rpc_dispatch_timeout)
    tx.timers[_timer(run, call)] = call.patient_until


def hand_out_rpc(tx: Transaction, run: Run, call: RpcCall) -> pb.PollWorkerTask:
    assert call.snapshot is not None
    call.task_id = tx.new_id()
    call.offer = None
    call.deadline = tx.now + call.timeout
    call.snapshot.task_id = call.task_id
    set_instant(call.snapshot.deadline, call.deadline)
    tx.timers[_timer(run, call)] = call.deadline + _DEADLINE_GRACE
    return call.snapshot


def fail_rpc(tx: Transaction, run: Run, call: RpcCall, error: pb.WorkerErrorResponse) -> None:
    _answer(tx, run, call, worker_failed(error))


def apply_rpc(
    tx: Transaction, run: Run, call: RpcCall, response: pb.InvokeWorkerRPCResponse
) -> None:
    """Commit the effects and answer, or answer with the reason why nothing was committed."""
    try:
        _require_sendable(tx, run, call, response)
        if _has_effects(response):
            _apply_effects(tx, run, call, response)
    except MalformedResult as error:
        fail_rpc(tx, run, call, engine_error("MalformedResult", error.detail))
    except Refusal as refusal:
        _answer(tx, run, call, refusal)
    else:
        _answer(tx, run, call, pb.InvokeRPCResponse(output=response.output))


def _require_sendable(
    tx: Transaction, run: Run, call: RpcCall, response: pb.InvokeWorkerRPCResponse
) -> None:
    size_bytes, limit_bytes = response.output.ByteSize(), tx.settings.frame_limit_bytes
    if size_bytes > limit_bytes:
        raise MalformedResult(
            f"the answer of RPC {call.name!r} of Flow {run.flow_id!r} would take {size_bytes} "
            f"bytes, and the limit is {limit_bytes}"
        )


def _apply_effects(
    tx: Transaction, run: Run, call: RpcCall, response: pb.InvokeWorkerRPCResponse
) -> None:
    if not run.is_running:
        raise not_running(run.flow_id)
    decision = response.step_decision
    if decision.HasField("close_decision"):
        raise MalformedResult("an RPC cannot close its Flow")
    require_movements(decision.next_steps)
    if call.needs_running_flow:
        require_messages(run, response.delete_from_channel)
    write_attributes(tx, run, response.upsert_attributes)
    delete_messages(tx, run, response.delete_from_channel)
    publish(tx, run, response.publish_to_channel)
    cancel_steps(tx, run, step_types=decision.cancel_step_types)
    start_steps(tx, run, decision.next_steps, f"__rpc/{call.name}")
    history.record_rpc(tx, run, call.name)


def _has_effects(response: pb.InvokeWorkerRPCResponse) -> bool:
    return bool(
        response.upsert_attributes
        or response.publish_to_channel
        or response.delete_from_channel
        or response.record_events
        or response.HasField("step_decision")
    )


def _answer(tx: Transaction, run: Run, call: RpcCall, reply: RpcReply) -> None:
    if call.task_id and isinstance(reply, Refusal):
        tx.cancelled_task_ids.append(call.task_id)
    call.task_id = ""
    if call.offer is not None:
        call.offer.is_open = False
        call.offer = None
    run.locks.release(call)
    run.rpcs.discard(call)
    tx.timers[_timer(run, call)] = None
    tx.replies.append((call, reply))


def _timer(run: Run, call: RpcCall) -> TimerKey:
    return TimerKey(TimerKind.RPC, run.key, 0, call)
