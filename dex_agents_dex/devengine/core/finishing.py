"""A Worker's final frame for a task in flight: which rule it is for."""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import CANCELLED_STATUS, MalformedResult
from dex_agents_dex.devengine.core.results import apply_execute, apply_wait_for
from dex_agents_dex.devengine.core.rpcs import apply_rpc, fail_rpc
from dex_agents_dex.devengine.core.state import Phase, RpcCall, Run, StepExecution
from dex_agents_dex.devengine.core.steps import engine_error, fail_attempt
from dex_agents_dex.devengine.core.timeouts import method_deadline_error, rpc_timeout
from dex_agents_dex.devengine.core.transaction import Transaction


def finish_rpc(tx: Transaction, run: Run, call: RpcCall, frame: pb.PollWorkerTaskFrame) -> None:
    call.task_id = ""
    kind = frame.WhichOneof("output")
    if kind == "rpc":
        apply_rpc(tx, run, call, frame.rpc)
    elif kind == "worker_error":
        error = frame.worker_error
        is_late = call.deadline is not None and call.deadline <= tx.now
        is_timeout = is_late and error.grpc_status == CANCELLED_STATUS
        fail_rpc(tx, run, call, rpc_timeout(call) if is_timeout else error)
    else:
        detail = f"the Worker answered RPC {call.name!r} with {kind}"
        fail_rpc(tx, run, call, engine_error("MalformedResult", detail))


def finish_step(
    tx: Transaction, run: Run, step: StepExecution, frame: pb.PollWorkerTaskFrame
) -> None:
    step.task_id = ""
    kind = frame.WhichOneof("output")
    if kind == "worker_error":
        error = frame.worker_error
        is_late = step.deadline is not None and step.deadline <= tx.now
        is_timeout = is_late and error.grpc_status == CANCELLED_STATUS
        fail_attempt(tx, run, step, method_deadline_error(step) if is_timeout else error)
        return
    try:
        if kind == "wait_for" and step.phase is Phase.WAIT_FOR:
            apply_wait_for(tx, run, step, frame.wait_for.result)
        elif kind == "execute" and step.phase is Phase.EXECUTE:
            apply_execute(tx, run, step, frame.execute.result)
        else:
            raise MalformedResult(f"the Worker answered {step.id} with {kind}")
    except MalformedResult as error:
        fail_attempt(tx, run, step, engine_error("MalformedResult", error.detail))
