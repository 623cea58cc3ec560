"""The Flow of an agent: what was given reaches the session's options."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic_ai import Agent

from dex_agents_dex import AgentSessionFlow
from dex_agents_model import AgentSessionOptions, CompactionPolicy, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow


def find() -> str:
    return "found"


def test_session_flow__takes_the_defaults_of_a_session() -> None:
    flow = pydantic_ai_session_flow(Agent(), flow_type="OrderAgent")

    assert isinstance(flow, AgentSessionFlow)
    assert flow.get_flow_type() == "OrderAgent"
    assert flow.options == AgentSessionOptions()


def test_session_flow__passes_every_option_on() -> None:
    flow = pydantic_ai_session_flow(
        Agent(tools=[find]),
        flow_type="OrderAgent",
        tool_policies={"find": ToolPolicy(ToolEffect.READ)},
        default_tool_effect=ToolEffect.IDEMPOTENT_WRITE,
        compaction=CompactionPolicy(context_window_tokens=1000),
        interrupt_deadline=timedelta(hours=1),
        max_model_calls_per_turn=7,
        max_tool_output_bytes=1000,
        max_tool_content_bytes=1500,
        max_user_message_bytes=2000,
        max_response_argument_bytes=3000,
        fence_single_attempt_tools=False,
        event_stream_capacity_bytes=4000,
    )

    assert flow.options == AgentSessionOptions(
        tool_policies={"find": ToolPolicy(ToolEffect.READ)},
        default_tool_effect=ToolEffect.IDEMPOTENT_WRITE,
        compaction=CompactionPolicy(context_window_tokens=1000),
        interrupt_deadline=timedelta(hours=1),
        max_model_calls_per_turn=7,
        max_tool_output_bytes=1000,
        max_tool_content_bytes=1500,
        max_user_message_bytes=2000,
        max_response_argument_bytes=3000,
        fence_single_attempt_tools=False,
        event_stream_capacity_bytes=4000,
    )


def test_session_flow__refuses_an_agent_that_cannot_work() -> None:
    agent = Agent()
    agent.output_validator(lambda output: output)

    with pytest.raises(ValueError, match="output validators"):
        pydantic_ai_session_flow(agent, flow_type="OrderAgent")
