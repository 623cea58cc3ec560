"""Workload W: one turn with two model calls and three parallel tools that do nothing, on a model without latency."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentSessionFlow, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

PROMPT = "Do the three things."
TOOLS = ("first", "second", "third")


async def _reply(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    last = messages[-1]
    if isinstance(last, ModelRequest) and any(isinstance(p, ToolReturnPart) for p in last.parts):
        yield "Done."
        return
    yield {
        index: DeltaToolCall(name=name, json_args="{}", tool_call_id=f"call-{index}")
        for index, name in enumerate(TOOLS)
    }


def _do_nothing() -> str:
    return "ok"


def build_agent() -> Agent[None, str]:
    """The agent of the workload."""
    agent = Agent(FunctionModel(stream_function=_reply))
    for name in TOOLS:
        agent.tool_plain(name=name)(_do_nothing)
    return agent


def build_flow() -> AgentSessionFlow:
    """The same agent as a durable session; its tools are reads."""
    return pydantic_ai_session_flow(
        build_agent(),
        flow_type="Workload",
        tool_policies={name: ToolPolicy(ToolEffect.READ) for name in TOOLS},
    )
