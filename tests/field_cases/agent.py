"""A Pydantic AI agent whose model and tools do what the user's message says (`tests.binding.script`).

Its model is as strict as a provider: it refuses a history in which a tool call lacks its one result.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from pydantic_ai import Agent, ModelRetry, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability, ValidatedToolArgs
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelHTTPError, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.tools import ToolDefinition

from dex_agents_dex import AgentSessionFlow
from dex_agents_model import CompactionPolicy
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply, Script
from tests.binding.scripted_runner import hold, invocations_in, output_of

from .histories import faults_of

SUMMARY: Final = "What was said before."
OBEDIENT: Final = "Obedient"
IMPATIENT: Final = "ObedientImpatient"
"""Approvals expire after ``DEADLINE``."""
DEADLINE: Final = timedelta(seconds=3)

STUBBORN: Final = "stubborn"
"""The way of a tool that takes no notice of being cancelled, and returns."""

LONG_BYTES: Final = 20 * 1024 * 1024
"""More than any frame holds."""
FORGETFUL: Final = "ObedientForgetful"
"""Earlier turns are summarised, a few turns on."""
SMALL_WINDOW: Final = CompactionPolicy(
    context_window_tokens=12_000, trigger_ratio=0.5, keep_recent_tokens=2_000
)
ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}


@frozen
class Whose:
    """The session that a model call or a tool call belongs to: the agent's dependencies."""

    session_id: str
    state_dir: Path

    def begins(self, name: str, key: str) -> int:
        """Note that a call began, and tell which of its runs this is, from 1."""
        log = invocations_in(self.state_dir)
        run = len(log.read(name=name, key=key)) + 1
        log.record(name, key=key, attempt=run)
        return run


# --- the model -------------------------------------------------------------------------------


def _script_of(messages: Sequence[ModelMessage]) -> tuple[int, int, Script]:
    """How many scripts the user has sent, how often the model has answered the latest, and it."""
    scripts: list[tuple[int, str]] = [
        (place, part.content)
        for place, message in enumerate(messages)
        for part in message.parts
        if isinstance(part, UserPromptPart)
        and isinstance(part.content, str)
        and part.content.startswith('{"replies"')
    ]
    place, latest = scripts[-1]
    answered = sum(isinstance(message, ModelResponse) for message in messages[place:])
    return len(scripts), answered, Script.of(latest)


def model_of(state_dir: Path) -> FunctionModel:
    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        if faults := faults_of(messages):
            raise ModelHTTPError(400, "obedient", faults)
        whose = Whose(info.instructions or "", state_dir)
        turn, number, script = _script_of(messages)
        run = whose.begins("model", f"{whose.session_id}/turn-{turn}/{number}")
        reply = script.replies[number]
        await hold(state_dir, whose.session_id, reply.gate)
        for delta in reply.deltas:
            yield delta
        if reply.crash is not None and run <= reply.crashes_until_attempt:
            raise ConnectionError(reply.crash)
        if reply.way is not None:
            raise _end(reply.way)
        if reply.thought is not None:
            yield {0: DeltaThinkingPart(content=reply.thought, signature=reply.signature)}
        for chunk in _said(reply):
            yield chunk

    return FunctionModel(stream_function=stream, model_name="obedient")


def _said(reply: Reply) -> Sequence[str | DeltaToolCalls]:
    if not reply.calls:
        return ["a" * reply.text_characters if reply.text_characters else reply.text]
    return [
        {index: DeltaToolCall(name=call.tool, json_args=_written(call), tool_call_id=call.id)}
        for index, call in enumerate(reply.calls, start=1)
    ]


def _written(call: Call) -> str:
    return call.arguments() if call.raw is None else call.raw


async def _summarise(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    yield SUMMARY


# --- its tools -------------------------------------------------------------------------------


async def obey(ctx: RunContext[Whose], /, **arguments: Any) -> str:
    text = json.dumps(arguments)
    call, whose = Call.of(text), ctx.deps
    whose.begins(str(ctx.tool_name), deferred_tool_idempotency_key(ctx) or "")
    try:
        await hold(whose.state_dir, whose.session_id, call.gate)
    except asyncio.CancelledError:
        if call.way != STUBBORN:
            raise
        return output_of(call, text)
    if call.crash is not None:
        raise ConnectionError(call.crash)
    if call.error is not None:
        raise ToolFailed(call.error)
    if call.way is not None:
        raise _end(call.way)
    return output_of(call, text)


class Enough(BaseException):
    """What a library raises that wants no ``except Exception`` to hold it up."""


WAYS: Final[Mapping[str, Callable[[], BaseException]]] = {
    "retry": lambda: ModelRetry("another word, please"),
    "refusal": lambda: ToolFailed("no such order"),
    "approval": ApprovalRequired,
    "deferral": CallDeferred,
    "cancelled": asyncio.CancelledError,
    "garbled crash": lambda: ConnectionError("a\x00b\ud800"),
    "long crash": lambda: ConnectionError("x" * LONG_BYTES),
    "long refusal": lambda: ToolFailed("x" * LONG_BYTES),
    "group": lambda: BaseExceptionGroup("of the tool's own tasks", [asyncio.CancelledError()]),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt("enough"),
    "own": Enough,
}
"""How a call ends that a script lets end in this ``way``."""


def _end(way: str) -> BaseException:
    return WAYS[way]()


class _HeldCalls(AbstractCapability[Whose]):
    """Holds a call around the tool's body: at its ``early_gate`` and at its ``late_gate``."""

    async def before_tool_execute(
        self,
        ctx: RunContext[Whose],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
    ) -> ValidatedToolArgs:
        early_gate = Call.of(call.args_as_json_str()).early_gate
        await hold(ctx.deps.state_dir, ctx.deps.session_id, early_gate)
        return args

    async def after_tool_execute(
        self,
        ctx: RunContext[Whose],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        result: Any,
    ) -> Any:
        late_gate = Call.of(call.args_as_json_str()).late_gate
        await hold(ctx.deps.state_dir, ctx.deps.session_id, late_gate)
        return result


# --- the Flows, built alike in a test and in its Workers ---------------------------------------


def obedient_flow(
    state_dir: Path,
    flow_type: str = OBEDIENT,
    *,
    interrupt_deadline: timedelta | None = None,
    compaction: CompactionPolicy | None = None,
) -> AgentSessionFlow:
    """A Flow of the agent. ``state_dir`` holds the gates and the log of invocations."""
    tools = [
        Tool[Whose].from_schema(obey, name, None, ANY_OBJECT, takes_ctx=True) for name in POLICIES
    ]
    agent = Agent(deps_type=Whose, tools=tools, capabilities=[_HeldCalls()])

    @agent.instructions
    def tell_the_session(ctx: RunContext[Whose]) -> str:
        return ctx.deps.session_id

    return pydantic_ai_session_flow(
        agent,
        flow_type=flow_type,
        tool_policies=POLICIES,
        deps_factory=lambda session_id: Whose(session_id, state_dir),
        model=model_of(state_dir),
        summary_model=FunctionModel(stream_function=_summarise, model_name="summariser"),
        interrupt_deadline=interrupt_deadline,
        compaction=compaction,
    )


def build_flows(state_dir: Path) -> tuple[AgentSessionFlow, ...]:
    return (
        obedient_flow(state_dir),
        obedient_flow(state_dir, IMPATIENT, interrupt_deadline=DEADLINE),
        obedient_flow(state_dir, FORGETFUL, compaction=SMALL_WINDOW),
    )
