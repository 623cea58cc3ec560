"""Workload W: one turn with two model calls and three parallel tools that do nothing, on a model without latency."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentSessionFlow, ToolEffect, ToolPolicy
from dex_agents_model import CompactionPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

PROMPT = "Do the three things."
TOOLS = ("first", "second", "third")
ANSWER = "Done."
FLOW_TYPE = "Workload"
POLICIES = {name: ToolPolicy(ToolEffect.READ) for name in TOOLS}

WINDOW = CompactionPolicy(context_window_tokens=4000, trigger_ratio=0.85, keep_recent_tokens=1000)
"""Keeps the model's input of W between about 2 and 10 turns, however long the session is."""
WINDOW_STREAM_BYTES = 512 * 1024
"""Of events that a server keeps for the sessions with a window: full long before turn 1,000."""


def _is_asked_for_an_answer(messages: list[ModelMessage]) -> bool:
    """After the tools' results, and for a summary, which is asked for in words of its own."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    return not any(isinstance(p, UserPromptPart) and p.content == PROMPT for p in last.parts)


async def stream_reply(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """What the scripted model says, piece by piece."""
    if _is_asked_for_an_answer(messages):
        yield ANSWER
        return
    yield {
        index: DeltaToolCall(name=name, json_args="{}", tool_call_id=f"call-{index}")
        for index, name in enumerate(TOOLS)
    }


async def _reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if _is_asked_for_an_answer(messages):
        return ModelResponse(parts=[TextPart(ANSWER)])
    return ModelResponse(
        parts=[
            ToolCallPart(name, "{}", tool_call_id=f"call-{index}")
            for index, name in enumerate(TOOLS)
        ]
    )


def build_model() -> FunctionModel:
    """The scripted model; it can stream."""
    return FunctionModel(_reply, stream_function=stream_reply)


async def do_nothing() -> str:
    """What each tool does."""
    return "ok"


def build_agent() -> Agent[None, str]:
    """The agent of the workload."""
    agent = Agent(build_model())
    for name in TOOLS:
        agent.tool_plain(name=name)(do_nothing)
    return agent


def build_flow() -> AgentSessionFlow:
    """The same agent as a durable session."""
    return flow_of(build_agent())


def flow_of(agent: Agent[None, str]) -> AgentSessionFlow:
    """A durable session of an agent with the tools of W, which are reads."""
    return pydantic_ai_session_flow(agent, flow_type=FLOW_TYPE, tool_policies=POLICIES)


def build_flow_with_a_window() -> AgentSessionFlow:
    """A durable session of W whose model's input stays the same."""
    return pydantic_ai_session_flow(
        build_agent(),
        flow_type=FLOW_TYPE,
        tool_policies=POLICIES,
        compaction=WINDOW,
        event_stream_capacity_bytes=WINDOW_STREAM_BYTES,
    )
