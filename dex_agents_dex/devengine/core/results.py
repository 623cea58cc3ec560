"""What a Step method's successful result does to its run.

Order: Attribute writes, locals, Channel deletions, publishes, cancellations, decision. Waits are
evaluated afterwards, in `settling`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import history, rows
from dex_agents_dex.devengine.core.changes import delete_messages, publish, write_attributes
from dex_agents_dex.devengine.core.closing import close_flow, fail_flow
from dex_agents_dex.devengine.core.conditions import require_well_formed
from dex_agents_dex.devengine.core.errors import MalformedResult
from dex_agents_dex.devengine.core.settling import begin_wait
from dex_agents_dex.devengine.core.state import Phase, Run, StepExecution
from dex_agents_dex.devengine.core.steps import (
    begin_method,
    cancel_step,
    remove_step,
    start_step,
)
from dex_agents_dex.devengine.core.transaction import Transaction
from dex_agents_dex.devengine.core.validation import movement_problem
from dex_agents_dex.devengine.core.values import take_in

_CLOSE_DECISIONS_WITH_NEXT_STEPS = (pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY,)


def apply_wait_for(
    tx: Transaction, run: Run, step: StepExecution, response: pb.InvokeWaitForMethodResponse
) -> None:
    """Raise `MalformedResult`, with the run untouched, when the Wait is none."""
    has_wait = response.HasField("waiting_condition")
    if has_wait:
        require_well_formed(response.waiting_condition)
    _apply_side_effects(tx, run, step, response)
    history.record_step_completed(tx, run, step)
    run.locks.release(step.key)
    if has_wait:
        begin_wait(tx, run, step, response.waiting_condition)
    else:
        begin_method(tx, run, step, Phase.EXECUTE)


def apply_execute(
    tx: Transaction, run: Run, step: StepExecution, response: pb.InvokeExecuteMethodResponse
) -> None:
    """Raise `MalformedResult`, with the run untouched, when the decision is none."""
    decision = response.step_decision
    _require_decision(decision)
    _apply_side_effects(tx, run, step, response)
    history.record_step_completed(tx, run, step)
    remove_step(tx, run, step)
    cancel_steps(
        tx,
        run,
        step_types=decision.cancel_step_types,
        sibling_types=decision.cancel_sibling_step_types,
        source=step.source,
    )
    if not decision.HasField("close_decision"):
        start_steps(tx, run, decision.next_steps, step.id)
    else:
        _close_branch(tx, run, step, decision)


def start_steps(
    tx: Transaction, run: Run, movements: Iterable[pb.StepMovement], source: str
) -> None:
    for movement in movements:
        start_step(tx, run, movement, source)


def cancel_steps(
    tx: Transaction,
    run: Run,
    *,
    step_types: Collection[str],
    sibling_types: Collection[str] = (),
    source: str = "",
) -> None:
    """Cancel the current executions of the types, and those siblings that share the source."""
    if not step_types and not sibling_types:
        return
    for other in tuple(run.steps.values()):
        is_sibling = other.source == source and other.step_type in sibling_types
        if other.step_type in step_types or is_sibling:
            cancel_step(tx, run, other)


def require_movements(movements: Iterable[pb.StepMovement]) -> None:
    """Raise `MalformedResult` for a movement that cannot start a Step."""
    for movement in movements:
        problem = movement_problem(movement)
        if problem is not None:
            raise MalformedResult(problem)


def _require_decision(decision: pb.StepDecision) -> None:
    require_movements(decision.next_steps)
    if not decision.HasField("close_decision"):
        if not decision.next_steps:
            raise MalformedResult("the decision neither closes nor names a next Step")
        return
    kind = decision.close_decision.close_decision_type
    if kind not in _CLOSE:
        raise MalformedResult(f"unknown close decision {kind}")
    wants_next = kind in _CLOSE_DECISIONS_WITH_NEXT_STEPS
    if bool(decision.next_steps) != wants_next:
        problem = "needs a next Step as fallback" if wants_next else "cannot name next Steps"
        name = pb.CloseDecisionType.Name(kind)
        raise MalformedResult(f"the decision {name} {problem}")


def _apply_side_effects(
    tx: Transaction,
    run: Run,
    step: StepExecution,
    response: pb.InvokeWaitForMethodResponse | pb.InvokeExecuteMethodResponse,
) -> None:
    write_attributes(tx, run, response.upsert_attributes)
    for local in response.upsert_step_exe_locals:
        step.locals[local.key] = take_in(tx, run, local.value)
    delete_messages(tx, run, response.delete_from_channel)
    publish(tx, run, response.publish_to_channel)


def _close_branch(
    tx: Transaction, run: Run, step: StepExecution, decision: pb.StepDecision
) -> None:
    close = decision.close_decision
    kind = close.close_decision_type
    if kind == pb.CLOSE_DECISION_TYPE_DEAD_END:
        return
    if kind == pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE:
        _add_output(tx, run, step, close)
        run.is_graceful = True
        tx.touch_run(run)
    elif kind == pb.CLOSE_DECISION_TYPE_FORCE_FAIL:
        reason = close.close_input.string_value
        fail_flow(tx, run, pb.FLOW_ERROR_TYPE_STEP_DECISION_FAILING_FLOW, reason)
    elif kind == pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE or not any(
        run.channel_size(name) for name in close.conditional_channel_names
    ):
        _add_output(tx, run, step, close)
        close_flow(tx, run, pb.FLOW_STATUS_COMPLETED)
    else:
        start_steps(tx, run, decision.next_steps, step.id)


def _add_output(tx: Transaction, run: Run, step: StepExecution, close: pb.CloseDecision) -> None:
    if not close.HasField("close_input"):
        return
    output = pb.StepCompletionOutput(
        completed_step_type=step.step_type,
        completed_step_execution_id=step.id,
        completed_step_output=take_in(tx, run, close.close_input),
    )
    run.outputs.append(output)
    tx.write(rows.PutOutput(run.key, len(run.outputs), output.SerializeToString()))


_CLOSE = (
    pb.CLOSE_DECISION_TYPE_DEAD_END,
    pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE,
    pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE,
    pb.CLOSE_DECISION_TYPE_FORCE_FAIL,
    pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY,
)
