"""What an agent framework's adapter implements, and what it is given. The session calls it; it never calls the session.

Each method may run again after a crash or a retry: a runner keeps nothing between calls and
derives everything from its arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from .calls import AgentToolCall, Runnable, ToolCallStatus, ToolEffect
from .effects import (
    BuildUnfinishedTurn,
    CallModel,
    Effect,
    ExecuteTool,
    Outcome,
    ToolCallsRequested,
    ToolRaised,
    ToolReturned,
    TurnCompleted,
    UnfinishedTurnBuilt,
)
from .errors import ClaimRefused, ContractBroken
from .ids import SessionId, ToolCallId, TurnId, idempotency_key
from .policy import AgentSessionOptions, ToolPolicy
from .records import AgentMessage, AgentUserMessage, FrameworkMessage, MessageRole

AgentTurnOutcome: TypeAlias = TurnCompleted | ToolCallsRequested
Heartbeat: TypeAlias = Callable[[], Awaitable[None]]


class ToolExecutionError(Exception):
    """Raised by a runner for a failure that the model should see: recorded, and not tried again."""


class AgentEventWriter(Protocol):
    """Tells watchers what happens during one call of the runner, best effort, from any thread.

    What is written after that call has returned is dropped.
    """

    def write_text_delta(self, text: str) -> None: ...
    def write_reasoning_delta(self, text: str) -> None: ...
    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None: ...
    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None: ...
    def write_event(self, name: str, data: str) -> None:
        """An event of the runner's own: a name and JSON text."""
        ...


@frozen(kw_only=True)
class AgentTurnContext:
    """One model call of a turn, and all committed state that it needs.

    ``attempt`` counts from 1. ``messages`` are all stored ones in sequence order; the last user
    message belongs to this turn. ``framework_run_state`` is None for the turn's first model call,
    else that of its latest ToolCallsRequested. ``tool_calls`` holds every record of the turn in
    model order, each of them final.
    """

    flow_id: SessionId
    turn_id: TurnId
    attempt: int
    messages: tuple[AgentMessage, ...]
    framework_run_state: str | None
    tool_calls: Mapping[ToolCallId, AgentToolCall]
    steering_messages: tuple[str, ...]
    """What the user said since the model call before; it goes to the model beside the tool results."""
    options: AgentSessionOptions
    events: AgentEventWriter
    heartbeat: Heartbeat
    """Records liveness. The session beats every 20 seconds by itself."""

    @property
    def is_resuming(self) -> bool:
        """Whether this model call goes on after tool calls."""
        return self.framework_run_state is not None

    def recorded_tool_call(self, tool_call_id: str) -> AgentToolCall:
        """The record of one call of this turn.

        Raises:
            KeyError: the turn has no such call.
        """
        return self.tool_calls[ToolCallId(tool_call_id)]

    def resolve_tool_policy(
        self, tool_name: str, framework_effect: ToolEffect | None = None
    ) -> ToolPolicy:
        """The policy of a tool: the application's, else the framework's hint, else the default."""
        return self.options.resolve_tool_policy(tool_name, framework_effect)


@frozen(kw_only=True)
class DeferredToolExecution:
    """One attempt to run one tool call that may run.

    ``idempotency_key`` is ``<flow_id>/<turn_id>/<tool_call_id>``, the same on every attempt.
    """

    flow_id: SessionId
    tool_call: Runnable
    idempotency_key: str
    attempt: int
    events: AgentEventWriter
    heartbeat: Heartbeat


@frozen
class ToolExecutionResult:
    """What the tool returned, as the model will see it."""

    output: str


class AgentFrameworkRunner(Protocol):
    """The contract of an adapter ([core: runner contract])."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        """``text`` as a message of the user. Must not block, and must give the same for the same text."""
        ...

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Make one model call, and run no tool that can be deferred.

        Any exception fails the attempt.
        """
        ...

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        """Run the tool once. May run at the same time as other calls.

        Raises:
            ToolExecutionError: a failure for the model to see; the call is not tried again.
            Exception: anything else fails the attempt; the effect's line in the table decides.
        """
        ...


@frozen(kw_only=True)
class UnfinishedTurn:
    """A turn that failed or was cancelled after it had asked for tools; every record is final."""

    flow_id: SessionId
    turn_id: TurnId
    framework_run_state: str
    tool_calls: Mapping[ToolCallId, AgentToolCall]


@runtime_checkable
class KeepsUnfinishedTurns(Protocol):
    """A runner may also have this, so that a turn without an answer keeps its exact items."""

    def build_unfinished_turn_messages(
        self, turn: UnfinishedTurn
    ) -> Sequence[FrameworkMessage] | None:
        """Every item of the turn behind its user message, each tool call followed by its result.

        None when this turn cannot be kept; the session then stores a note instead. Must not block.
        """
        ...


def user_message(
    runner: AgentFrameworkRunner, *, sequence: int, turn: TurnId, message: AgentUserMessage
) -> AgentMessage:
    """What a user said as a stored message.

    Raises:
        ContractBroken: the runner gave it another role.
    """
    built = runner.build_user_message(message.text)
    if built.role is not MessageRole.USER:
        raise ContractBroken(
            f"build_user_message returned a message of the role {built.role}, not {MessageRole.USER}"
        )
    return AgentMessage(
        sequence=sequence,
        turn_id=turn,
        role=built.role,
        framework_item=built.framework_item,
        text=built.text,
        tool_call_id=built.tool_call_id,
        tool_name=built.tool_name,
        message_id=message.message_id,
    )


@frozen(kw_only=True)
class Invocation:
    """Where a Step runs: what every call of the runner is given, besides what it is about.

    ``claim`` asks for the right to run a single-attempt call, in the name of this one delivery.
    """

    session: SessionId
    attempt: int
    options: AgentSessionOptions
    events: AgentEventWriter
    heartbeat: Heartbeat
    claim: Callable[[TurnId, ToolCallId], Awaitable[bool]]


async def perform(effect: Effect, runner: AgentFrameworkRunner, where: Invocation) -> Outcome:
    """Let ``runner`` do what a Step asked for, and say what came of it.

    Raises:
        ContractBroken: the runner returned something that its contract does not know.
        ClaimRefused: another delivery has the call, or its turn is over; the runner was not called.
        Exception: whatever else the runner raises.
    """
    match effect:
        case CallModel():
            return await _call_model(effect, runner, where)
        case ExecuteTool():
            return await _execute_tool(effect, runner, where)
        case BuildUnfinishedTurn():
            return _build_unfinished_turn(effect, runner, where)


async def _call_model(
    effect: CallModel, runner: AgentFrameworkRunner, where: Invocation
) -> Outcome:
    outcome: object = await runner.run_model_step(
        AgentTurnContext(
            flow_id=where.session,
            turn_id=effect.turn,
            attempt=where.attempt,
            messages=effect.messages,
            framework_run_state=effect.run_state,
            tool_calls={record.tool_call_id: record for record in effect.tool_calls},
            steering_messages=effect.steering_messages,
            options=where.options,
            events=where.events,
            heartbeat=where.heartbeat,
        )
    )
    if isinstance(outcome, AgentTurnOutcome):
        return outcome
    raise ContractBroken(f"run_model_step returned {outcome!r:.200}, not an AgentTurnOutcome")


async def _execute_tool(
    effect: ExecuteTool, runner: AgentFrameworkRunner, where: Invocation
) -> Outcome:
    record = effect.record
    if effect.fenced and not await where.claim(record.turn_id, record.tool_call_id):
        raise ClaimRefused(
            f"tool call {record.tool_call_id} of {record.turn_id} is not this delivery's to run:"
            " another one has claimed it, or its turn is over"
        )
    # Output before the tool runs: an engine that has seen it knows that the call may have started.
    where.events.write_tool_call_started(record.tool_call_id, record.tool_name)
    await where.heartbeat()
    execution = DeferredToolExecution(
        flow_id=where.session,
        tool_call=record,
        idempotency_key=idempotency_key(where.session, record.turn_id, record.tool_call_id),
        attempt=where.attempt,
        events=where.events,
        heartbeat=where.heartbeat,
    )
    try:
        result: object = await runner.execute_deferred_tool_call(execution)
    except ToolExecutionError as error:
        return ToolRaised(str(error))
    if isinstance(result, ToolExecutionResult):
        return ToolReturned(result.output)
    raise ContractBroken(
        f"execute_deferred_tool_call returned {result!r:.200}, not a ToolExecutionResult"
    )


def _build_unfinished_turn(
    effect: BuildUnfinishedTurn, runner: AgentFrameworkRunner, where: Invocation
) -> UnfinishedTurnBuilt:
    if not isinstance(runner, KeepsUnfinishedTurns):
        return UnfinishedTurnBuilt(None, effect.error)
    messages = runner.build_unfinished_turn_messages(
        UnfinishedTurn(
            flow_id=where.session,
            turn_id=effect.turn,
            framework_run_state=effect.run_state,
            tool_calls={record.tool_call_id: record for record in effect.tool_calls},
        )
    )
    return UnfinishedTurnBuilt(None if messages is None else tuple(messages), effect.error)
