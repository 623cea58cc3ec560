"""From a user's message to the model's final answer: how a turn begins, asks for tools, goes on and completes."""

from __future__ import annotations

from datetime import datetime

from ..calls import FinalCall
from ..decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    SetInterrupts,
    SetState,
    SetUsage,
    StepDecision,
    TakeSteering,
    WaitDecision,
    Write,
)
from ..effects import (
    CallModel,
    Entered,
    ToolResultsArrived,
    TurnCompleted,
    UserSpoke,
    UserSteered,
)
from ..errors import StateCorrupt
from ..events import (
    SteeringTaken,
    TurnEvent,
    TurnStarted,
    UsageRecorded,
    told_end,
)
from ..ids import ToolCallId, TurnId
from ..records import (
    AgentUsage,
    AgentUserMessage,
    RunningModel,
    RunningTools,
    TakenSteering,
    TurnSucceeded,
    WaitingForUserMessage,
)
from ..steps import (
    AwaitUserMessage,
    CompactHistory,
    ResumeTurn,
    RunModel,
    StartAgentSession,
)
from ..views import ResumeView, SessionView, TurnView
from ..waits import ForToolResults, ForUserMessage
from .compaction import boundary_to_compact, results_to_shorten, unsummarised
from .limits import end_over_a_limit, running_model
from .messages import place, with_output


def start_session(
    step: StartAgentSession, view: SessionView, on: Entered, now: datetime
) -> StepDecision:
    """Lay out an empty session; its first message, when there is one that it takes, begins turn 1."""
    fresh: tuple[Write, ...] = (SetUsage(AgentUsage()), SetInterrupts(()))
    idle = WaitingForUserMessage()
    message = step.initial_message
    if message is not None:
        refusal = view.options.user_message_refusal(message.text, message.framework_content)
        if refusal is None:
            return _begin_turn(idle, message, fresh)
    return StepDecision(
        commit=Commit(writes=(SetState(idle), *fresh)), next=GoTo((AwaitUserMessage(),))
    )


def wait_for_user_message(step: AwaitUserMessage, view: SessionView, now: datetime) -> WaitDecision:
    """Tell how the latest turn ended, now that its end is durable, and wait."""
    state = _idle(view)
    if state.last_turn is None:
        return WaitDecision(wait=ForUserMessage())
    ended = TurnEvent(TurnId.of(state.turn_count), told_end(state.last_turn))
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
    state = running_model(view)
    limit = view.options.max_model_calls_per_turn
    if state.model_calls >= limit:
        return end_over_a_limit(
            step,
            f"the turn made {state.model_calls} model calls without a final answer;"
            f" max_model_calls_per_turn is {limit}",
        )
    shortened: tuple[ToolCallId, ...] | None = ()
    policy = view.options.compaction
    if policy is not None:
        boundary = boundary_to_compact(view, policy) if state.may_compact else None
        if boundary is not None:
            return StepDecision(next=GoTo((CompactHistory(step.turn, boundary),)))
        shortened = results_to_shorten(view, policy)
    if shortened is None:
        return end_over_a_limit(
            step, "the turn no longer fits the context window, even with its tool results shortened"
        )
    return CallModel(
        step.turn,
        unsummarised(view),
        view.run_state,
        view.tool_calls,
        steering_messages=tuple(
            t.message for t in view.steering if t.model_calls == state.model_calls
        ),
        summary=None if view.summary is None else view.summary.text,
        shortened_results=shortened,
    )


def complete_turn(step: RunModel, view: TurnView, on: TurnCompleted, now: datetime) -> StepDecision:
    """The model gave its final answer: store the whole turn at once, then wait for the user."""
    state = running_model(view)
    messages = place(on.new_messages, state.message_count + 1, step.turn)
    if on.output is not None:
        messages = with_output(messages, on.output)
    idle = WaitingForUserMessage(
        turn_count=state.turn_count,
        message_count=state.message_count + len(messages),
        last_turn=TurnSucceeded(len(messages)),
        history=state.history,
    )
    usage = view.usage + on.usage
    return StepDecision(
        commit=Commit(
            writes=(SetState(idle), SetUsage(usage), AppendMessages(messages), ClearTurn()),
            events=(TurnEvent(step.turn, UsageRecorded(on.usage, usage)),),
        ),
        next=GoTo((AwaitUserMessage(),)),
    )


def wait_for_results(step: ResumeTurn, view: SessionView, now: datetime) -> WaitDecision:
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
        turn_count=state.turn_count,
        message_count=state.message_count,
        model_calls=state.model_calls,
        steering_count=state.steering_count + len(steering),
        history=state.history,
        may_compact=state.may_compact,
        run_state_tokens=state.run_state_tokens,
        tool_call_ids=state.tool_call_ids,
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


def _begin_turn(
    idle: WaitingForUserMessage, message: AgentUserMessage, writes: tuple[Write, ...] = ()
) -> StepDecision:
    sequence = idle.message_count + 1
    state = RunningModel(
        turn_count=idle.turn_count + 1,
        message_count=sequence,
        model_calls=0,
        history=idle.history,
    )
    turn = state.active_turn_id
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(state),
                *writes,
                AppendUserMessage(sequence, turn, message),
            ),
            events=(TurnEvent(turn, TurnStarted(sequence, message.message_id)),),
        ),
        next=GoTo((RunModel(turn),)),
    )


def _idle(view: SessionView) -> WaitingForUserMessage:
    if not isinstance(view.state, WaitingForUserMessage):
        raise StateCorrupt(f"a session that waits for its user has the state {view.state}")
    return view.state
