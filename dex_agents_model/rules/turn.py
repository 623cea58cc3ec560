"""From a user's message to the model's final answer: how a turn begins, asks for tools, goes on and completes."""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from ..calls import AwaitingApproval, FinalCall, OpenCall, RequestedToolCall, Runnable
from ..decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    PutToolCall,
    SetInterrupts,
    SetRunState,
    SetState,
    SetUsage,
    StepDecision,
    TakeSteering,
    WaitDecision,
    Write,
)
from ..effects import (
    CallModel,
    DeferredToolCall,
    Entered,
    ToolCallsRequested,
    ToolResultsArrived,
    TurnCompleted,
    UserSpoke,
    UserSteered,
)
from ..errors import ContractBroken, StateCorrupt
from ..events import (
    EventPayload,
    SteeringTaken,
    ToolCallDeferred,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnEvent,
    TurnFailedEvent,
    TurnStarted,
    UsageRecorded,
)
from ..ids import ToolCallId, TurnId
from ..policy import AgentSessionOptions
from ..records import (
    AgentUsage,
    AgentUserMessage,
    RunningModel,
    RunningTools,
    TakenSteering,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from ..steps import AwaitUserMessage, RecordTurnFailure, ResumeTurn, RunModel, StartAgentSession
from ..text import clean_text, is_storable, size_bytes
from ..views import ResumeView, SessionView, TurnView
from ..waits import ForToolResults, ForUserMessage
from .approval import MAX_PENDING_APPROVALS, interrupts_for
from .messages import place
from .tools import first_step


def start_session(
    step: StartAgentSession, view: SessionView, on: Entered, now: datetime
) -> StepDecision:
    """Lay out an empty session; its first message, when there is one, begins turn 1."""
    fresh: tuple[Write, ...] = (SetUsage(AgentUsage()), SetInterrupts(()))
    idle = WaitingForUserMessage()
    if step.initial_message is not None and step.initial_message.text.strip():
        return _begin_turn(idle, step.initial_message, fresh)
    return StepDecision(
        commit=Commit(writes=(SetState(idle), *fresh)), next=GoTo((AwaitUserMessage(),))
    )


def wait_for_user_message(step: AwaitUserMessage, view: SessionView, now: datetime) -> WaitDecision:
    """Tell how the latest turn ended, now that its end is durable, and wait."""
    state = _idle(view)
    if state.last_turn is None:
        return WaitDecision(wait=ForUserMessage())
    payload: EventPayload
    match state.last_turn:
        case TurnSucceeded(message_count):
            payload = TurnCompletedEvent(message_count)
        case TurnFailed(error):
            payload = TurnFailedEvent(error)
        case TurnCancelled():
            payload = TurnCancelledEvent()
    ended = TurnEvent(TurnId.of(state.turn_count), payload)
    return WaitDecision(commit=Commit(events=(ended,)), wait=ForUserMessage())


def begin_turn(
    step: AwaitUserMessage, view: SessionView, on: UserSpoke, now: datetime
) -> StepDecision:
    """A queued message begins the next turn."""
    return _begin_turn(_idle(view), on.message)


def begin_turn_with_steering(
    step: AwaitUserMessage, view: SessionView, on: UserSteered, now: datetime
) -> StepDecision:
    """A steering message that met no turn begins one, ahead of the queue."""
    return _begin_turn(_idle(view), on.steering.message)


def call_the_model(
    step: RunModel, view: TurnView, on: Entered, now: datetime
) -> CallModel | StepDecision:
    """Ask for the next model call, unless the turn has used up its number of them."""
    state = _running_model(view)
    limit = view.options.max_model_calls_per_turn
    if state.model_calls >= limit:
        return _end_over_a_limit(
            step,
            f"the turn made {state.model_calls} model calls without a final answer;"
            f" max_model_calls_per_turn is {limit}",
        )
    steering = tuple(t.message.text for t in view.steering if t.model_calls == state.model_calls)
    return CallModel(step.turn, view.messages, view.run_state, view.tool_calls, steering)


def complete_turn(step: RunModel, view: TurnView, on: TurnCompleted, now: datetime) -> StepDecision:
    """The model gave its final answer: store the whole turn at once, then wait for the user."""
    state = _running_model(view)
    messages = place(on.new_messages, state.message_count + 1, step.turn)
    idle = WaitingForUserMessage(
        turn_count=state.turn_count,
        message_count=state.message_count + len(messages),
        last_turn=TurnSucceeded(len(messages)),
    )
    usage = view.usage + on.usage
    return StepDecision(
        commit=Commit(
            writes=(SetState(idle), SetUsage(usage), AppendMessages(messages), ClearTurn()),
            events=(TurnEvent(step.turn, UsageRecorded(on.usage, usage)),),
        ),
        next=GoTo((AwaitUserMessage(),)),
    )


def fan_out_tool_calls(
    step: RunModel, view: TurnView, on: ToolCallsRequested, now: datetime
) -> StepDecision:
    """One Step per call, in model order, and one ResumeTurn that waits for them all."""
    state = _running_model(view)
    records = _opened(on, view)
    usage = view.usage + on.usage
    waiting = tuple(r for r in records if isinstance(r, AwaitingApproval))
    refusal = _refusal(records, len(waiting), view.options)
    if refusal is not None:
        return _end_over_a_limit(step, refusal, SetUsage(usage))
    running = RunningTools(
        state.turn_count, state.message_count, state.model_calls + 1, state.steering_count
    )
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(running),
                SetUsage(usage),
                SetRunState(on.framework_run_state),
                *map(PutToolCall, records),
                *((SetInterrupts(interrupts_for(waiting)),) if waiting else ()),
            ),
            events=(
                TurnEvent(step.turn, UsageRecorded(on.usage, usage)),
                *(TurnEvent(step.turn, _deferred(record)) for record in records),
            ),
        ),
        next=GoTo((*map(first_step, records), ResumeTurn(step.turn, len(records)))),
    )


def wait_for_results(step: ResumeTurn, view: ResumeView, now: datetime) -> WaitDecision:
    """Wait for as many results as the Step was told."""
    return WaitDecision(wait=ForToolResults(step.expected_result_count))


def resume_turn(
    step: ResumeTurn, view: ResumeView, on: ToolResultsArrived, now: datetime
) -> StepDecision:
    """Call the model again once every record is final; else wait for those that are not."""
    state = view.state
    if not isinstance(state, RunningTools):
        raise StateCorrupt(f"{step.turn} resumes while the session's state is {state}")
    still_open = sum(not isinstance(record, FinalCall) for record in view.tool_calls)
    if still_open:
        return StepDecision(next=GoTo((ResumeTurn(step.turn, still_open),)))
    steering = view.pending_steering
    calling = RunningModel(
        state.turn_count,
        state.message_count,
        state.model_calls,
        state.steering_count + len(steering),
    )
    commit = Commit(writes=(SetState(calling),))
    if steering:
        taken = TakeSteering(
            tuple(pending.channel_message_id for pending in steering),
            first=state.steering_count,
            taken=tuple(
                TakenSteering(state.model_calls, pending.steering.message) for pending in steering
            ),
        )
        commit = Commit(
            writes=(SetState(calling), taken),
            events=(TurnEvent(step.turn, SteeringTaken(len(steering))),),
        )
    return StepDecision(commit=commit, next=GoTo((RunModel(step.turn),)))


def _end_over_a_limit(step: RunModel, error: str, *writes: Write) -> StepDecision:
    return StepDecision(
        commit=Commit(writes=writes), next=GoTo((RecordTurnFailure(step.turn, error),))
    )


def _begin_turn(
    idle: WaitingForUserMessage, message: AgentUserMessage, writes: tuple[Write, ...] = ()
) -> StepDecision:
    sequence = idle.message_count + 1
    state = RunningModel(turn_count=idle.turn_count + 1, message_count=sequence, model_calls=0)
    turn = state.active_turn_id
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(state),
                *writes,
                AppendUserMessage(sequence, turn, evolve(message, text=clean_text(message.text))),
            ),
            events=(TurnEvent(turn, TurnStarted(sequence, message.message_id)),),
        ),
        next=GoTo((RunModel(turn),)),
    )


def _idle(view: SessionView) -> WaitingForUserMessage:
    if not isinstance(view.state, WaitingForUserMessage):
        raise StateCorrupt(f"a session that waits for its user has the state {view.state}")
    return view.state


def _running_model(view: TurnView) -> RunningModel:
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"a session that calls its model has the state {view.state}")
    return view.state


def _refusal(
    records: tuple[OpenCall, ...], waiting: int, options: AgentSessionOptions
) -> str | None:
    """Why a session cannot hold what the model asked for; None when it can."""
    size = sum(size_bytes(record.arguments) for record in records)
    if size > options.max_response_argument_bytes:
        return (
            f"the model's {len(records)} tool calls have {size} bytes of arguments;"
            f" max_response_argument_bytes is {options.max_response_argument_bytes}"
        )
    if waiting > MAX_PENDING_APPROVALS:
        return (
            f"{waiting} tool calls of one model response need approval;"
            f" at most {MAX_PENDING_APPROVALS} can wait at a time"
        )
    return None


def _opened(on: ToolCallsRequested, view: TurnView) -> tuple[OpenCall, ...]:
    if not on.framework_run_state or not is_storable(on.framework_run_state):
        raise ContractBroken("the runner asked for tools without a run state that can be stored")
    if not on.tool_calls:
        raise ContractBroken("the runner asked for tools without naming a call")
    state = _running_model(view)
    earlier = len(view.tool_calls)
    records = tuple(
        _open(call, state.active_turn_id, earlier + position)
        for position, call in enumerate(on.tool_calls)
    )
    ids = [r.tool_call_id for r in view.tool_calls] + [r.tool_call_id for r in records]
    repeated = sorted({call for call in ids if ids.count(call) > 1})
    if repeated:
        raise ContractBroken(f"tool call IDs repeat within {state.active_turn_id}: {repeated}")
    return records


def _open(call: DeferredToolCall, turn: TurnId, order: int) -> OpenCall:
    try:
        tool_call_id = ToolCallId(clean_text(call.tool_call_id))
    except ValueError as error:
        raise ContractBroken(f"the model's call of {call.tool_name!r}: {error}") from error
    requested = RequestedToolCall(
        turn_id=turn,
        tool_call_id=tool_call_id,
        tool_name=clean_text(call.tool_name),
        arguments=clean_text(call.arguments),
        effect=call.policy.effect,
        requires_approval=call.policy.is_approval_required,
        deferral_order=order,
    )
    return AwaitingApproval(requested) if requested.requires_approval else Runnable(requested)


def _deferred(record: OpenCall) -> ToolCallDeferred:
    call = record.call
    return ToolCallDeferred(call.tool_call_id, call.tool_name, call.effect, call.requires_approval)
