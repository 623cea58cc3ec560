"""The scripted runner with a meter: what each model call used, and what a framework would know of it."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve
from opentelemetry import trace

from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    HistorySummarized,
    ModelCallFailed,
    SummaryRequest,
)
from dex_agents_model.effects import ModelCallMetadata

from ..binding.scripted_runner import ScriptedRunner

USAGE = AgentUsage(
    requests=1,
    input_tokens=10,
    output_tokens=2,
    cache_read_tokens=4,
    cache_write_tokens=3,
    reasoning_tokens=1,
)
SUMMARY_USAGE = AgentUsage(requests=1, input_tokens=100, output_tokens=20)
METADATA = ModelCallMetadata(
    request_model="model-1",
    response_model="model-1-large",
    provider="acme",
    response_id="response-1",
    finish_reason="stop",
)


class MeteredRunner(ScriptedRunner):
    """Tells ``METADATA`` and ``USAGE`` of every model call, and can summarise."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        outcome = await super().run_model_step(turn)
        return evolve(outcome, usage=USAGE, metadata=METADATA)

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        return HistorySummarized("what was said", SUMMARY_USAGE)

    def estimate_overhead_tokens(self) -> int:
        return 0


class WastefulRunner(MeteredRunner):
    """One whose provider counts what a call has used that then breaks."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        try:
            return await super().run_model_step(turn)
        except ConnectionError as broken:
            raise ModelCallFailed(str(broken), usage=USAGE) from broken


class InstrumentedRunner(MeteredRunner):
    """A framework with spans of its own."""

    def __init__(self, state_dir: Path, provider: trace.TracerProvider) -> None:
        super().__init__(state_dir)
        self._tracer = provider.get_tracer("a framework")

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        with self._tracer.start_as_current_span("POST /v1/messages"):
            return await super().run_model_step(turn)
