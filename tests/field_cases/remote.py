"""Agents of a provider on the network (`provider`), with typed tools and a typed result. Their Workers write spans."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from openai import AsyncOpenAI
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.tracing import Tracing
from dex_agents_model import ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow
from tests.binding.flows import POLICIES
from tests.tracing.seen import SpanFile, in_file, new_provider

from .agent import Whose

REMOTE: Final = "Remote"
"""Answers in text."""
TYPED: Final = "RemoteTyped"
"""Answers with a `Verdict`."""

GARBLED: Final = "a\x00b\ud800c\U0001f600d\x7fe"
READABLE: Final = "a\ufffdb\ufffdc\U0001f600d\x7fe"
"""As a session keeps ``GARBLED``: a NUL and a lone surrogate are replaced, and nothing else."""


class Verdict(BaseModel):
    """A typed result."""

    verdict: str
    sure: bool


def look(ctx: RunContext[Whose], number: int) -> str:
    """Look at an order."""
    return _did(ctx, f"order {number} is here")


def pay(ctx: RunContext[Whose], number: int) -> str:
    """Pay for an order."""
    return _did(ctx, f"order {number} is paid")


def wipe(ctx: RunContext[Whose], number: int | None = None) -> str:
    """Remove an order, or all of them."""
    return _did(ctx, f"order {number or 'of any number'} is gone")


def ask(ctx: RunContext[Whose], number: int) -> str:
    """Give an order back, if a person agrees."""
    return _did(ctx, f"order {number} is back")


def scan(ctx: RunContext[Whose], number: int) -> list[object]:
    """Scan so many KiB of paper."""
    return [_did(ctx, "the scan"), BinaryContent(bytes(number * 1024), media_type="image/png")]


def garble(ctx: RunContext[Whose], how: str) -> object:
    """Return or raise text that cannot be stored as it is."""
    _did(ctx, how)
    match how:
        case "text":
            return GARBLED
        case "data":
            return {"key": [GARBLED]}
        case "beside":
            return ToolReturn("seen", content=GARBLED, metadata={"key": GARBLED})
        case "refusal":
            raise ToolFailed(GARBLED)
        case "retry":
            raise ModelRetry(GARBLED)
        case _:
            raise OSError(GARBLED)


_TOOLS: Final = (look, pay, wipe, ask, scan, garble)
_POLICIES: Final = {
    **{tool.__name__: POLICIES[tool.__name__] for tool in (look, pay, ask)},
    **{
        tool.__name__: ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)
        for tool in (scan, garble, wipe)
    },
}


def _did(ctx: RunContext[Whose], result: str) -> str:
    ctx.deps.begins(str(ctx.tool_name), deferred_tool_idempotency_key(ctx) or "")
    return result


def spans_in(state_dir: Path) -> list[dict[str, Any]]:
    """All spans that Workers have ended, one Worker after the other."""
    return [span for path in sorted(state_dir.glob("spans-*")) for span in in_file(path)]


def remote_flows(state_dir: Path, provider_url: str) -> tuple[AgentSessionFlow, ...]:
    """Their Flows. ``state_dir`` holds the log of invocations and the spans."""
    client = AsyncOpenAI(base_url=f"{provider_url}/v1", api_key="none", max_retries=0)
    model = OpenAIChatModel("gpt-5.2", provider=OpenAIProvider(openai_client=client))
    spans = new_provider(SimpleSpanProcessor(SpanFile(state_dir / f"spans-{os.getpid()}")))

    def flow(flow_type: str, agent: Agent[Whose, Any]) -> AgentSessionFlow:
        return pydantic_ai_session_flow(
            agent,
            flow_type=flow_type,
            tool_policies=_POLICIES,
            deps_factory=lambda session_id: Whose(session_id, state_dir),
            model=model,
            tracing=Tracing(tracer_provider=spans),
        )

    return (
        flow(REMOTE, Agent(deps_type=Whose, tools=_TOOLS)),
        flow(TYPED, Agent(deps_type=Whose, tools=_TOOLS, output_type=Verdict)),
    )
