"""The Flows of these tests, built alike in the test and in its Workers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from attrs import evolve

from dex_agents_dex import AgentSessionFlow, AgentSessionOptions, ToolEffect, ToolPolicy
from dex_agents_model import CompactionPolicy

from .scripted_runner import ScriptedRunner, SummarizingRunner

STATE_DIR_VARIABLE = "SCRIPTED_STATE_DIR"

SCRIPTED = "Scripted"
IMPATIENT = "Impatient"
"""Approvals expire after one second."""

POLICIES = {
    "look": ToolPolicy(ToolEffect.READ),
    "put": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
    "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
    "poke": ToolPolicy(ToolEffect.UNCLASSIFIED, requires_approval=False),
    "ask": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    "hurry": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, timeout=timedelta(seconds=5)),
}
UNFENCED = "Unfenced"
"""Single-attempt tools run without a claim."""

COMPACTING = "Compacting"
"""Earlier turns are summarised once they are longer than 25 kB."""

OPTIONS = AgentSessionOptions(tool_policies=POLICIES)


def build_flows(state_dir: Path) -> tuple[AgentSessionFlow, ...]:
    """All of them. ``state_dir`` holds the gates and the log of invocations."""
    runner = ScriptedRunner(state_dir)
    unfenced = evolve(OPTIONS, fence_single_attempt_tools=False)
    window = CompactionPolicy(context_window_tokens=10_000, keep_recent_tokens=0)
    compacting = evolve(OPTIONS, compaction=window)
    impatient = evolve(OPTIONS, interrupt_deadline=timedelta(seconds=1))
    return (
        AgentSessionFlow(runner, flow_type=SCRIPTED, options=OPTIONS),
        AgentSessionFlow(runner, flow_type=IMPATIENT, options=impatient),
        AgentSessionFlow(runner, flow_type=UNFENCED, options=unfenced),
        AgentSessionFlow(SummarizingRunner(state_dir), flow_type=COMPACTING, options=compacting),
    )
