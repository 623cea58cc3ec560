"""What a run used, in the session's own terms, also of one that failed. No price may live here."""

from __future__ import annotations

from pydantic_ai.usage import RunUsage

from dex_agents_model import AgentUsage

from .errors import ModelStepFailed, describe


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


def failure_of(error: Exception, used: RunUsage, *, doing: str) -> ModelStepFailed:
    """Why a model call failed, and what it had used by then. ``doing`` is what failed, in words."""
    if isinstance(error, ModelStepFailed):
        text = str(error)
    elif isinstance(error, RuntimeError):  # Pydantic AI's own say what went wrong
        text = describe(error)
    else:
        text = f"{doing} failed: {describe(error)}"
    return ModelStepFailed(text, usage=usage_of(used))
