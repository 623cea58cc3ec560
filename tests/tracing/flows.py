"""The Flows of these tests. The one whose Workers are killed is built alike in the test and in its Workers."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.trace import TracerProvider

from dex_agents_dex import AgentSessionFlow, AgentSessionOptions, ToolEffect, ToolPolicy
from dex_agents_dex.tracing import Tracing
from dex_agents_model.policy import CompactionPolicy

from .metered_runner import MeteredRunner

STATE_DIR_VARIABLE = "TRACED_STATE_DIR"
TRACED = "Traced"

OPTIONS = AgentSessionOptions(
    tool_policies={
        "look": ToolPolicy(ToolEffect.READ),
        "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
        "ask": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    }
)
COMPACTING = AgentSessionOptions(
    compaction=CompactionPolicy(
        context_window_tokens=10_000, trigger_ratio=0.05, keep_recent_tokens=0
    )
)
"""An earlier turn of more than about 1,500 bytes is summarised."""


def traced_flow(
    state_dir: Path,
    provider: TracerProvider | None,
    *,
    options: AgentSessionOptions = OPTIONS,
    record_content: bool = False,
    runner: MeteredRunner | None = None,
) -> AgentSessionFlow:
    """The Flow ``Traced``; without a provider it is not traced. ``state_dir`` holds the gates of its scripts."""
    tracing = None
    if provider is not None:
        tracing = Tracing(tracer_provider=provider, record_content=record_content)
    return AgentSessionFlow(
        runner or MeteredRunner(state_dir), flow_type=TRACED, options=options, tracing=tracing
    )
