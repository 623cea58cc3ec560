"""What stands in for a session and for a model here. No rule is checked in this file."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Sequence

from attrs import define, field
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
)

from dex_agents_model import (
    AgentFrameworkRunner,
    AgentMessage,
    AgentSessionOptions,
    AgentToolCall,
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUserMessage,
    DeferredToolExecution,
    FrameworkMessage,
    SessionId,
    ToolCallId,
    ToolCallsRequested,
    ToolCallStatus,
    ToolEffect,
    ToolPolicy,
    TurnCompleted,
    TurnId,
    UnfinishedTurn,
    idempotency_key,
)
from dex_agents_model.calls import (
    Failed,
    OutcomeUnknown,
    Rejected,
    RequestedToolCall,
    Runnable,
    Succeeded,
)
from dex_agents_model.user_messages import build_user_message, user_message

Chunk = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]
SESSION = SessionId("session-1")


@define
class RecordingEvents:
    """An event writer that keeps what it is told, as (kind, text)."""

    told: list[tuple[str, str]] = field(factory=list)

    def write_text_delta(self, text: str) -> None:
        self.told.append(("text_delta", text))

    def write_reasoning_delta(self, text: str) -> None:
        self.told.append(("reasoning_delta", text))

    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None:
        self.told.append(("tool_call_started", tool_call_id))

    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None:
        self.told.append(("tool_call_finished", tool_call_id))

    def write_event(self, name: str, data: str) -> None:
        self.told.append((name, data))


async def heartbeat() -> None:
    """Nobody listens."""


class ScriptedModel(FunctionModel):
    """Streams one script for each model call, and keeps what it was sent.

    It has no native tools: FunctionModel claims them all, which would hide `search_tools`.
    """

    def __init__(self, *scripts: Iterable[Chunk]) -> None:
        remaining = iter(scripts)
        self.received: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Chunk]:
            self.received.append(list(messages))
            self.infos.append(info)
            for chunk in next(remaining):
                yield chunk

        super().__init__(stream_function=stream, model_name="scripted")

    @classmethod
    def supported_native_tools(cls) -> frozenset[type]:
        return frozenset()


def no_model() -> ScriptedModel:
    """A model that must not be called."""
    return ScriptedModel()


def tool_call(
    name: str, arguments: str = "{}", call_id: str = "call", *, index: int = 9
) -> dict[int, DeltaToolCall]:
    """One tool call as a chunk of a stream; ``index`` is its place among the parts."""
    return {index: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}


def tool_calls(*calls: tuple[str, str, str]) -> list[Chunk]:
    """A response of tool calls, each (name, arguments, ID)."""
    return [
        tool_call(name, arguments, call_id, index=index)
        for index, (name, arguments, call_id) in enumerate(calls, start=10)
    ]


# --- records ---------------------------------------------------------------------------------


def requested(
    call_id: str = "call",
    name: str = "tool",
    arguments: str = "{}",
    *,
    effect: ToolEffect = ToolEffect.READ,
    approved: bool = False,
    memo: str | None = None,
) -> RequestedToolCall:
    return RequestedToolCall(
        turn_id=TurnId.of(1),
        tool_call_id=ToolCallId(call_id),
        tool_name=name,
        arguments=arguments,
        effect=effect,
        requires_approval=approved,
        deferral_order=0,
        framework_memo=memo,
    )


def succeeded(call_id: str, output: str) -> Succeeded:
    return Succeeded(requested(call_id), output)


def rejected(call_id: str, message: str) -> Rejected:
    return Rejected(requested(call_id), message)


def failed(call_id: str, error: str) -> Failed:
    return Failed(requested(call_id), error)


def unknown(call_id: str) -> OutcomeUnknown:
    return OutcomeUnknown(requested(call_id), "the Worker was lost")


# --- the session -----------------------------------------------------------------------------


@define
class Session:
    """Stores what a runner makes, as a session would, without an engine or rules."""

    runner: AgentFrameworkRunner
    options: AgentSessionOptions = AgentSessionOptions()
    flow_id: SessionId = SESSION
    messages: list[AgentMessage] = field(factory=list)
    records: dict[ToolCallId, AgentToolCall] = field(factory=dict)
    run_state: str | None = None
    turn: TurnId = TurnId.of(1)
    events: RecordingEvents = field(factory=RecordingEvents)
    steering: tuple[AgentUserMessage, ...] = ()
    summary: str | None = None
    shortened: frozenset[ToolCallId] = frozenset()
    _turns: itertools.count[int] = field(factory=lambda: itertools.count(1))

    def speak(self, text: str, content: str | None = None) -> None:
        """The user begins a turn."""
        self.turn = TurnId.of(next(self._turns))
        self.run_state, self.records, self.steering = None, {}, ()
        said = AgentUserMessage(text, framework_content=content)
        self.messages.append(
            user_message(self.runner, sequence=self._next_sequence, turn=self.turn, message=said)
        )

    def fail_turn(self, note: str) -> None:
        """The turn ends without an answer; its tools are told to the next one in a note."""
        self._store([self.runner.build_user_message(note)])

    def keep(self, messages: Sequence[FrameworkMessage]) -> None:
        """The turn ends without an answer; these items of it are kept."""
        self._store(messages)

    async def call_model(self) -> AgentTurnOutcome:
        outcome = await self.runner.run_model_step(self.context())
        if isinstance(outcome, ToolCallsRequested):
            self.run_state = outcome.framework_run_state
        elif isinstance(outcome, TurnCompleted):
            self._store(outcome.new_messages)
        return outcome

    async def ask(self, text: str, content: str | None = None) -> AgentTurnOutcome:
        self.speak(text, content)
        return await self.call_model()

    async def resume(
        self, *records: AgentToolCall, steering: tuple[str | AgentUserMessage, ...] = ()
    ) -> AgentTurnOutcome:
        """The turn goes on: its tools have ended, and the user may have said something meanwhile."""
        self.records.update({record.tool_call_id: record for record in records})
        self.steering = tuple(
            AgentUserMessage(said) if isinstance(said, str) else said for said in steering
        )
        return await self.call_model()

    def context(self) -> AgentTurnContext:
        return AgentTurnContext(
            flow_id=self.flow_id,
            turn_id=self.turn,
            attempt=1,
            messages=tuple(self.messages),
            framework_run_state=self.run_state,
            tool_calls=self.records,
            steering_messages=tuple(
                build_user_message(self.runner, said) for said in self.steering
            ),
            summary=self.summary,
            shortened_results=self.shortened,
            options=self.options,
            events=self.events,
            heartbeat=heartbeat,
        )

    def unfinished(self, *records: AgentToolCall) -> UnfinishedTurn:
        """The running turn as one that ends here, with these records."""
        assert self.run_state is not None
        return UnfinishedTurn(
            flow_id=self.flow_id,
            turn_id=self.turn,
            framework_run_state=self.run_state,
            tool_calls={record.tool_call_id: record for record in records},
        )

    def _store(self, messages: Sequence[FrameworkMessage]) -> None:
        for message in messages:
            self.messages.append(
                AgentMessage(
                    sequence=self._next_sequence,
                    turn_id=self.turn,
                    role=message.role,
                    framework_item=message.framework_item,
                    text=message.text,
                    tool_call_id=message.tool_call_id,
                    tool_name=message.tool_name,
                    estimated_tokens=message.estimated_tokens,
                )
            )

    @property
    def _next_sequence(self) -> int:
        return len(self.messages) + 1


def with_policies(**policies: ToolPolicy) -> AgentSessionOptions:
    return AgentSessionOptions(tool_policies=policies)


def execution(
    name: str = "tool",
    arguments: str = "{}",
    *,
    of: RequestedToolCall | None = None,
    call_id: str = "call",
    effect: ToolEffect = ToolEffect.READ,
    approved: bool = False,
    flow_id: SessionId = SESSION,
) -> DeferredToolExecution:
    call = of or requested(call_id, name, arguments, effect=effect, approved=approved)
    return DeferredToolExecution(
        flow_id=flow_id,
        tool_call=Runnable(call),
        idempotency_key=idempotency_key(flow_id, call.turn_id, call.tool_call_id),
        attempt=1,
        events=RecordingEvents(),
        heartbeat=heartbeat,
    )


def loaded(message: AgentMessage | FrameworkMessage) -> ModelMessage:
    [one] = ModelMessagesTypeAdapter.validate_json(message.framework_item)
    return one
