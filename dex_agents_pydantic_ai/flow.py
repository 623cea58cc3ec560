"""Builds the session Flow of one agent. The only module here that knows the Dex binding; it decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TypedDict

from pydantic_ai.agent import AbstractAgent
from typing_extensions import Unpack

from dex_agents_dex import AgentSessionFlow, StepTracing
from dex_agents_model import AgentSessionOptions, CompactionPolicy, ToolEffect, ToolPolicy

from .runner import AgentModel, DepsFactory, DepsT, OutputT, PydanticAIRunner
from .tool_names import refuse_unknown_tools, refuse_unusable_names


class SessionLimits(TypedDict, total=False):
    """The limits of AgentSessionOptions, with its defaults."""

    compaction: CompactionPolicy | None
    interrupt_deadline: timedelta | None
    max_model_calls_per_turn: int
    max_tool_output_bytes: int
    max_tool_content_bytes: int
    max_user_message_bytes: int
    max_response_argument_bytes: int
    fence_single_attempt_tools: bool
    event_stream_capacity_bytes: int


def pydantic_ai_session_flow(
    agent: AbstractAgent[DepsT, OutputT],
    *,
    flow_type: str,
    tool_policies: Mapping[str, ToolPolicy] | None = None,
    default_tool_effect: ToolEffect = ToolEffect.UNCLASSIFIED,
    deps_factory: DepsFactory[DepsT] | None = None,
    model: AgentModel | None = None,
    summary_model: AgentModel | None = None,
    allow_missing_tools: bool = False,
    tracing: StepTracing | None = None,
    **limits: Unpack[SessionLimits],
) -> AgentSessionFlow:
    """The Flow that runs sessions of ``agent``, which is not changed.

    ``tool_policies`` go by the name that the model calls, with any prefix of a toolset. See
    `PydanticAIRunner` for ``deps_factory`` and the models, and `AgentSessionOptions` for the limits.
    ``tracing`` is a `dex_agents_dex.tracing.Tracing`; None traces nothing.

    Raises:
        ValueError: the agent cannot work in a session, has a tool whose name is blank or has more than
            256 characters, or lacks one that a policy names.
    """
    runner = PydanticAIRunner(
        agent,
        deps_factory=deps_factory,
        model=model,
        summary_model=summary_model,
        allow_missing_tools=allow_missing_tools,
    )
    refuse_unusable_names(agent)
    policies = tool_policies or {}
    if not allow_missing_tools:
        refuse_unknown_tools(agent, policies)
    options = AgentSessionOptions(
        tool_policies=policies, default_tool_effect=default_tool_effect, **limits
    )
    return AgentSessionFlow(runner, flow_type=flow_type, options=options, tracing=tracing)
