"""The agents of the tests on real processes, and the Worker that serves them. No rule is checked here.

A model here calls the tools that the user names, and then tells what it was told of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from pydantic_ai import Agent, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.testing import FileGate, InvocationLog, run_agent_worker
from dex_agents_model import ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow

STATE_DIR: Final = "ADAPTER_STATE_DIR"
OPENAI_URL: Final = "ADAPTER_OPENAI_URL"
ANTHROPIC_URL: Final = "ADAPTER_ANTHROPIC_URL"
EFFECTS: Final = "Effects"
SHOP: Final = "Shop"
REMOTE: Final = "Remote"
THINKING: Final = "Thinking"

_NEVER_SECONDS: Final = 3600.0
_TOOL_TIMEOUT_SECONDS: Final = 0.05


async def stream(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """Call each tool that the user's prompt names, then say what became of each call."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    parts = [part for request in requests for part in request.parts]
    prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    if told := [part for part in parts if isinstance(part, ToolReturnPart)]:
        lines = [f"{part.tool_name} {part.outcome}: {_seen(part)}" for part in told]
        lines += [f"user sent: {_files(prompt)}" for prompt in prompts if _files(prompt)]
        yield "\n".join(lines)
        return
    [prompt] = prompts
    for index, name in enumerate(str(prompt).split(), start=1):
        yield {index: DeltaToolCall(name=name, json_args="{}", tool_call_id=name)}


def _seen(part: ToolReturnPart) -> str:
    """What a model reads of a result, and which files it sees."""
    text = part.model_response_str(wrap_if_error=False)
    return " ".join([text, *(file.identifier for file in part.files)])


def _files(prompt: str | Sequence[UserContent]) -> str:
    """What a model sees of a user's files."""
    return " ".join(piece.identifier for piece in prompt if isinstance(piece, BinaryContent))


# --- each effect, and each way in which a tool can end ----------------------------------------


async def returns(ctx: RunContext[Path]) -> str:
    return "done"


async def retries(ctx: RunContext[Path]) -> NoReturn:
    raise ModelRetry("another word, please")


async def fails(ctx: RunContext[Path]) -> NoReturn:
    raise ToolFailed("no such order")


async def raises(ctx: RunContext[Path]) -> NoReturn:
    raise OSError("the network is gone")


async def times_out(ctx: RunContext[Path]) -> str:
    await asyncio.wait_for(asyncio.Event().wait(), _NEVER_SECONDS)
    return "never"


async def asks(ctx: RunContext[Path]) -> NoReturn:
    raise ApprovalRequired


async def defers(ctx: RunContext[Path]) -> NoReturn:
    raise CallDeferred


async def is_held(ctx: RunContext[Path]) -> str:
    gate = FileGate(ctx.deps, str(ctx.tool_name))
    gate.mark_reached()
    await gate.wait_for_release()
    return "done"


WAYS: Final = (returns, retries, fails, raises, times_out, asks, defers, is_held)


def tool_name(effect: ToolEffect, way: Callable[..., object]) -> str:
    return f"{effect.value}__{way.__name__}"


def _counted(way: Callable[[RunContext[Path]], Awaitable[str]], effect: ToolEffect) -> Tool[Path]:
    name = tool_name(effect, way)

    async def tool(ctx: RunContext[Path]) -> str:
        key = deferred_tool_idempotency_key(ctx) or ""
        InvocationLog(ctx.deps / "invocations").record(name, key=key)
        return await way(ctx)

    timeout = _TOOL_TIMEOUT_SECONDS if way is times_out else None
    return Tool(tool, name=name, timeout=timeout)


PICTURE: Final = BinaryContent(bytes(range(256)) * 2500, media_type="image/png")
"""As JSON it is larger than what is kept in one entry of a map."""


def picture() -> list[object]:
    return ["a chart", PICTURE]


def _effects_flow(state_dir: Path) -> AgentSessionFlow:
    kinds = [(effect, way) for effect in ToolEffect for way in WAYS]
    return pydantic_ai_session_flow(
        Agent(
            deps_type=Path,
            tools=[Tool(picture), *(_counted(way, effect) for effect, way in kinds)],
        ),
        flow_type=EFFECTS,
        model=FunctionModel(stream_function=stream),
        deps_factory=lambda session_id: state_dir,
        tool_policies={
            picture.__name__: ToolPolicy(ToolEffect.READ),
            **{
                tool_name(effect, way): ToolPolicy(effect, requires_approval=False)
                for effect, way in kinds
            },
        },
    )


# --- an agent of which a newer definition comes to serve ---------------------------------------

CHANGED_TOOLS: Final = ("removed", "renamed", "retyped")


def _older_agent() -> Agent[None, str]:
    def removed() -> str:
        return "done"

    def renamed() -> str:
        return "done"

    def retyped() -> str:
        return "done"

    return Agent(tools=[removed, renamed, retyped])


def _newer_agent() -> Agent[None, str]:
    def renamed_anew() -> str:
        return "done"

    def retyped(reason: str) -> str:
        return reason

    return Agent(tools=[renamed_anew, retyped])


def deploy_newer_agent(state_dir: Path) -> None:
    """Workers that start from now on serve the newer definition of the shop's agent."""
    (state_dir / "newer").touch()


def _shop_flow(state_dir: Path) -> AgentSessionFlow:
    is_newer = (state_dir / "newer").exists()
    return pydantic_ai_session_flow(
        _newer_agent() if is_newer else _older_agent(),
        flow_type=SHOP,
        model=FunctionModel(stream_function=stream),
        tool_policies={name: ToolPolicy(ToolEffect.UNCLASSIFIED) for name in CHANGED_TOOLS},
        allow_missing_tools=is_newer,
    )


# --- an agent of a provider on the network -----------------------------------------------------


LARGEST_MESSAGE_BYTES: Final = 1024 * 1024


def _of_openai(url: str) -> Model:
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    return OpenAIChatModel("gpt-5.2", provider=provider)


def _of_anthropic(url: str) -> Model:
    provider = AnthropicProvider(base_url=url, api_key="none")
    return AnthropicModel("claude-x", provider=provider)


def build_flows(state_dir: Path, openai_url: str, anthropic_url: str) -> list[AgentSessionFlow]:
    return [
        _effects_flow(state_dir),
        _shop_flow(state_dir),
        pydantic_ai_session_flow(
            Agent(_of_openai(openai_url)),
            flow_type=REMOTE,
            max_user_message_bytes=LARGEST_MESSAGE_BYTES,
        ),
        pydantic_ai_session_flow(Agent(_of_anthropic(anthropic_url)), flow_type=THINKING),
    ]


if __name__ == "__main__":
    state_dir, openai_url, anthropic_url = map(
        os.environ.__getitem__, (STATE_DIR, OPENAI_URL, ANTHROPIC_URL)
    )
    run_agent_worker(build_flows(Path(state_dir), openai_url, anthropic_url), worker_slots=64)
