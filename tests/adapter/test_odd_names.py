"""Names that a provider or an application chose, of an unusual form, through a real agent on a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentRuntime, AgentSessionClient, AgentSessionFlow, ToolEffect
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.testing import wait_for_agent_snapshot
from dex_agents_model import ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

NAMES: Final = (
    "Заказ № 7 ❄ 👩‍👩‍👧",
    "  two  at  each  end  ",
    "'single' \"double\" `back`",
    "back\\slash %2F {x} *?",
    "functions.look:0",
    "..",
    "line\nbreak",
    "\x1b[31m",
    "é" * 256,
)
"""Of tools, and of their calls."""
SESSION_ID: Final = " Заказ \"7\" '%2F' 👩‍👩‍👧 "


def echo() -> str:
    return "echoed"


def agent_of(*names: str) -> Agent[None, str]:
    """It calls each of its tools once, and then repeats what they returned."""

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        returned = [part for part in last.parts if isinstance(part, ToolReturnPart)]
        if not returned:
            yield {
                n: DeltaToolCall(name, "{}", tool_call_id=name[::-1])
                for n, name in enumerate(names)
            }
        yield "|".join(f"{part.tool_name}={part.tool_call_id}={part.content}" for part in returned)

    tools = [Tool(echo, name=name, takes_ctx=False) for name in names]
    return Agent(FunctionModel(stream_function=stream), tools=tools)


def flow_of(*names: str) -> AgentSessionFlow:
    first, *others = names
    return pydantic_ai_session_flow(
        agent_of(*names),
        flow_type="Named",
        tool_policies={
            first: ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
            **{name: ToolPolicy(ToolEffect.IDEMPOTENT_WRITE) for name in others},
        },
    )


@pytest_asyncio.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[AgentSessionClient]:
    flow = flow_of(*NAMES)
    async with (
        DevEngine(tmp_path / "data") as engine,
        AgentRuntime(flow, server_address=engine.address) as runtime,
    ):
        yield runtime.sessions(flow)


async def test_names__of_tools_calls_and_sessions_reach_the_model_again(
    sessions: AgentSessionClient,
) -> None:
    await sessions.start_session(SESSION_ID)
    turn = asyncio.create_task(sessions.run_turn(SESSION_ID, "call them"))
    (question,) = await wait_for_agent_snapshot(
        sessions, SESSION_ID, lambda seen: seen.pending_interrupts, description="a question"
    )
    assert (question.tool_name, question.tool_call_id) == (NAMES[0], NAMES[0][::-1])
    assert await sessions.resolve_interrupt(SESSION_ID, question.interrupt_id, approved=True)

    outcome = await turn

    assert outcome.answer == "|".join(f"{name}={name[::-1]}=echoed" for name in NAMES)
    stored = [m.tool_name for m in outcome.messages if m.tool_name is not None]
    assert set(stored) <= set(NAMES)


@pytest.mark.parametrize("name", ["n" * 257, "n" * 100_000], ids=len)
def test_tool_name__that_no_session_keeps_is_refused_when_the_flow_is_built(name: str) -> None:
    with pytest.raises(ValueError, match=f"^tool name '{'n' * 40}' must have 1 to 256 characters"):
        pydantic_ai_session_flow(agent_of(name), flow_type="Named")
