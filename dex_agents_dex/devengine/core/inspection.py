"""What a run looks like from outside: its state as `GetFlowState` tells it, and skipped timers."""

from __future__ import annotations

from collections.abc import Mapping

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid
from dex_agents_dex.devengine.core.instants import to_seconds
from dex_agents_dex.devengine.core.settling import set_wait_timer
from dex_agents_dex.devengine.core.state import Phase, Progress, Run, StepExecution
from dex_agents_dex.devengine.core.transaction import Transaction


def flow_state(run: Run, attributes: Mapping[str, pb.Value]) -> pb.GetFlowStateResponse:
    """`attributes`: all of the run's, those that are in no memory too."""
    state = pb.GetFlowStateResponse(
        flow_config=run.start.flow_start_options.flow_config_override,
        attributes=[pb.KV(key=key, value=value) for key, value in attributes.items()],
        completed_steps=run.outputs,
        sticky_app_worker_id=run.sticky_worker,
    )
    for name, messages in run.channels.items():
        pending = state.pending_channel_messages[name].messages
        for message in messages:
            pending.add(channel_name=name, value=message.value, message_id=message.message_id)
    for step in run.steps.values():
        state.active_step_executions.append(_step_state(step))
    return state


def skip_timer(tx: Transaction, run: Run, request: pb.SkipTimerRequest) -> None:
    """Count one timer of a waiting Step as fired; raise `Refusal` if there is none such."""
    step = run.step_by_id(request.step_execution_id)
    if step is None or step.phase is not Phase.WAITING or step.wait is None:
        raise invalid(f"{request.step_execution_id!r} is not a waiting Step of the Flow")
    timers = step.wait.timer_conditions
    if request.HasField("timer_condition_index"):
        index = request.timer_condition_index
    else:
        ids = [timer.condition_id for timer in timers]
        wanted = request.timer_condition_id
        index = ids.index(wanted) if wanted and wanted in ids else -1
    if not 0 <= index < len(timers):
        raise invalid(f"{request.step_execution_id} has no such timer")
    step.skipped_timers.add(index)
    tx.touch_step(run, step)
    set_wait_timer(tx, run, step)


def _step_state(step: StepExecution) -> pb.ActiveStepExecutionState:
    is_waiting = step.phase is Phase.WAITING
    state = pb.ActiveStepExecutionState(
        step_execution_id=step.id,
        from_step_execution_id=step.source,
        step_type=step.step_type,
        phase=pb.ACTIVE_STEP_PHASE_WAITING if is_waiting else pb.ACTIVE_STEP_PHASE_ACTIVE,
        movement=pb.StepMovement(
            step_type=step.step_type, step_input=step.input, step_options=step.options
        ),
        step_execution_locals=[pb.KV(key=key, value=value) for key, value in step.locals.items()],
    )
    if step.wait is not None and is_waiting:
        waiting = state.waiting_condition
        waiting.waiting_condition_type = step.wait.waiting_condition_type
        waiting.timer_conditions.extend(step.wait.timer_conditions)
        waiting.channel_conditions.extend(step.wait.channel_conditions)
        waiting.condition_combinations.extend(step.wait.condition_combinations)
        for timer, due in zip(step.wait.timer_conditions, step.timer_dues(), strict=True):
            state.timers.add(
                condition_id=timer.condition_id, firing_unix_timestamp_seconds=to_seconds(due)
            )
    elif step.progress is Progress.BACKOFF:
        state.last_failure_info.attempt = step.attempt - 1
    return state
