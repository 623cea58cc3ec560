"""``python -m tests.field_cases.mcp_agent``: a Worker of the obedient agent, with the tools of an MCP server."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.testing import run_agent_worker
from dex_agents_pydantic_ai import pydantic_ai_session_flow
from tests.binding.conftest import ROOT
from tests.binding.flows import POLICIES
from tests.binding.scripted_runner import invocations_in

from . import agent, mcp_server
from .agent import Whose
from .worker import STATE_DIR

CONNECTED: Final = "Connected"
_START_SECONDS: Final = 30


def build_flows(state_dir: Path) -> tuple[AgentSessionFlow, ...]:
    """The one Flow. ``state_dir`` holds the gates, the logs, and what the MCP server is told."""
    transport = StdioTransport(
        sys.executable,
        ["-m", mcp_server.__name__, str(state_dir)],
        env=dict(os.environ),
        cwd=str(ROOT),
    )
    server = MCPToolset[Whose](transport, init_timeout=_START_SECONDS, read_timeout=_START_SECONDS)
    own = Tool[Whose].from_schema(agent.obey, "poke", None, agent.ANY_OBJECT, takes_ctx=True)
    connected = Agent(deps_type=Whose, toolsets=[server], tools=[own])

    @connected.instructions
    def tell_the_session(ctx: RunContext[Whose]) -> str:
        return ctx.deps.session_id

    return (
        pydantic_ai_session_flow(
            connected,
            flow_type=CONNECTED,
            tool_policies={name: POLICIES[name] for name in ("pay", "poke")},
            deps_factory=lambda session_id: Whose(session_id, state_dir),
            model=FunctionModel(stream_function=_stream_of(state_dir), model_name="obedient"),
        ),
    )


def _stream_of(state_dir: Path) -> Any:
    obey = agent.model_of(state_dir).stream_function
    assert obey is not None

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        offered = ",".join(sorted(tool.name for tool in info.function_tools))
        session = info.instructions or ""
        invocations_in(state_dir).record("offered", key=f"{session}/{offered}")
        async for chunk in obey(messages, info):
            yield chunk

    return stream


if __name__ == "__main__":
    run_agent_worker(build_flows(Path(os.environ[STATE_DIR])))
