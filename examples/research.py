"""A research agent that reads several sources at the same time, two of them from an MCP server.

Each read is a Step of its own: one that fails or is killed runs again, alone. The server says of its
tool that it only reads, so the tool needs no policy. It runs without a key or a network, and needs
`pip install "pydantic-ai-slim[mcp]"` beside the extra `pydantic-ai`.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentRuntime, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

CALLS = {
    1: DeltaToolCall("read_notes", '{"topic": "tides"}', tool_call_id="notes"),
    2: DeltaToolCall("read_page", '{"topic": "tides"}', tool_call_id="page-1"),
    3: DeltaToolCall("read_page", '{"topic": "whales"}', tool_call_id="page-2"),
}


async def script(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """What a good model would say: ask for every source at once, then put the findings together."""
    findings = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if findings:
        yield " ".join(finding.model_response_str() for finding in findings)
    else:
        yield CALLS


library = MCPToolset(Path(__file__).with_name("research_library.py"))
agent = Agent(FunctionModel(stream_function=script), toolsets=[library])


@agent.tool_plain
def read_notes(topic: str) -> str:
    """Return what our own notes say on a topic."""
    return f"Our notes on {topic}: ask a sailor."


flow = pydantic_ai_session_flow(
    agent,
    flow_type="ResearchAgent",
    tool_policies={"read_notes": ToolPolicy(ToolEffect.READ)},
)


async def main() -> None:
    async with AgentRuntime(flow) as runtime:
        sessions = runtime.sessions(flow)
        await sessions.start_session("research-1")
        turn = await sessions.run_turn("research-1", "What do tides have to do with whales?")
        print(turn.answer)


if __name__ == "__main__":
    asyncio.run(main())
