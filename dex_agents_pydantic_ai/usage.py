"""What a run used, in the session's own terms. No price may live here."""

from __future__ import annotations

from pydantic_ai.usage import RunUsage

from dex_agents_model import AgentUsage


def usage_of(usage: RunUsage) -> AgentUsage:
    """The requests and tokens of one run."""
    return AgentUsage(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
    )
