"""History rows: what a run's past looks like to `GetHistoryEvents`.

Events name executions and attempts; they repeat no Attribute, input or output.
"""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.instants import set_duration, set_instant
from dex_agents_dex.devengine.core.state import Phase, Run, StepExecution
from dex_agents_dex.devengine.core.transaction import Transaction


def record_started(tx: Transaction, run: Run) -> None:
    event = pb.FlowHistoryEvent()
    started = event.flow_started_or_continued
    started.flow_execution_id.flow_id = run.flow_id
    started.flow_execution_id.run_id = run.run_id
    started.flow_type = run.flow_type
    started.initial_start.start_step_type = run.start.start_step_type
    _record(tx, run, event)


def record_closed(tx: Transaction, run: Run) -> None:
    event = pb.FlowHistoryEvent()
    event.flow_closed.flow_status = run.status
    event.flow_closed.error_type = run.error_type
    event.flow_closed.error_message = run.error_message
    _record(tx, run, event)


def record_step_completed(tx: Transaction, run: Run, step: StepExecution) -> None:
    event = pb.FlowHistoryEvent()
    if step.phase is Phase.WAIT_FOR:
        _fill_context(event.step_wait_for_completed.context, tx, step)
    else:
        _fill_context(event.step_execute_completed.context, tx, step)
    _record(tx, run, event)


def record_step_failed(
    tx: Transaction, run: Run, step: StepExecution, error: pb.WorkerErrorResponse
) -> None:
    """The method failed for good; `error` is its last attempt's."""
    event = pb.FlowHistoryEvent()
    failed = (
        event.step_wait_for_failed if step.phase is Phase.WAIT_FOR else event.step_execute_failed
    )
    _fill_context(failed.context, tx, step)
    failure = failed.output.failure
    failure.attempt = step.attempt
    failure.details.detail = error.detail
    failure.details.original_worker_error_detail = error.detail
    failure.details.original_worker_error_type = error.error_type
    failure.details.original_worker_error_status = error.grpc_status
    _record(tx, run, event)


def record_rpc(tx: Transaction, run: Run, name: str) -> None:
    event = pb.FlowHistoryEvent()
    event.rpc_execution_completed.rpc_name = name
    _record(tx, run, event)


def _fill_context(context: pb.StepMethodEventContext, tx: Transaction, step: StepExecution) -> None:
    context.step_execution_id = step.id
    context.from_step_execution_id = step.source
    context.step_type = step.step_type
    context.final_attempt = step.attempt
    if step.first_attempt_at is not None:
        set_instant(context.started_time, step.first_attempt_at)
        set_duration(context.duration, tx.now - step.first_attempt_at)


def _record(tx: Transaction, run: Run, event: pb.FlowHistoryEvent) -> None:
    event.event_id = run.next_event
    set_instant(event.event_time, tx.now)
    event.run_attempt = 1
    tx.write(rows.PutEvent(run.key, run.next_event, event.SerializeToString()))
    run.next_event += 1
    tx.changed[run.key] = run
