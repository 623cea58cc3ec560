"""Tools of an MCP server, a real process: their effects, and what becomes of calls that it never answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai import Agent

from dex_agents_model import ToolCallsRequested, ToolEffect, ToolExecutionError
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ToolStepFailed
from dex_agents_pydantic_ai.tool_names import static_tool_names

from .doubles import ScriptedModel, Session, execution, tool_calls

mcp = pytest.importorskip(
    "pydantic_ai.mcp", reason="needs the extra mcp of Pydantic AI", exc_type=ImportError
)

SERVER = Path(__file__).with_name("mcp_server.py")
SHORT = 0.5  # seconds that a call may take


def agent_with_server() -> Agent[None, str]:
    return Agent(toolsets=[mcp.MCPToolset(SERVER, read_timeout=SHORT, init_timeout=30)])


async def test_mcp__hints_give_the_effects() -> None:
    names = ("look", "put", "stuck")
    model = ScriptedModel(tool_calls(*((name, "{}", name) for name in names)))

    asked = await Session(PydanticAIRunner(agent_with_server(), model=model)).ask("hi")

    assert isinstance(asked, ToolCallsRequested)
    assert [call.policy.effect for call in asked.tool_calls] == [
        ToolEffect.READ,
        ToolEffect.IDEMPOTENT_WRITE,
        ToolEffect.UNCLASSIFIED,
    ]


def test_mcp__names_are_known_only_in_a_run() -> None:
    assert static_tool_names(agent_with_server()) is None


async def test_mcp__a_call_that_is_never_answered_is_cut_off_and_the_server_stays_usable() -> None:
    runner = PydanticAIRunner(agent_with_server(), model=ScriptedModel())

    async def call(name: str) -> str:
        return (await runner.execute_deferred_tool_call(execution(name, '{"x":1}'))).output

    assert await call("look") == "look: {'x': 1}"
    with pytest.raises(ToolStepFailed, match=r"tool stuck was cut off: .*timed out"):
        await call("stuck")
    with pytest.raises(ToolStepFailed, match="tool die was cut off: Connection closed"):
        await call("die")
    with pytest.raises(ToolExecutionError, match="not today"):
        await call("refuse")
    assert await call("put") == "put: {'x': 1}"
