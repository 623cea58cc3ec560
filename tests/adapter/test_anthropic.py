"""The path to a provider that signs its thinking: what it gets back must be byte for byte what it gave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import BinaryContent, DocumentUrl
from pydantic_ai.models import Model

from dex_agents_model import ToolCallsRequested, TurnCompleted
from dex_agents_pydantic_ai import PydanticAIRunner, user_content
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .anthropic_protocol import call, message, text, thinking
from .doubles import Session, failed, rejected, succeeded
from .sse_server import Json, Reply, SseServer, cut, refused, sse_server

anthropic = pytest.importorskip("anthropic", reason="needs the extra anthropic of Pydantic AI")

SIGNATURE = "ErUB+/=\N{GRINNING FACE}\x01 \\u0000=="


@asynccontextmanager
async def provider(*replies: Reply, max_retries: int = 0) -> AsyncIterator[tuple[SseServer, Model]]:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    async with (
        sse_server(*replies) as server,
        anthropic.AsyncAnthropic(
            base_url=server.base_url, api_key="none", max_retries=max_retries
        ) as client,
    ):
        yield (
            server,
            AnthropicModel("claude-x", provider=AnthropicProvider(anthropic_client=client)),
        )


def order_agent() -> Agent[None, str]:
    agent = Agent(instructions="You help customers.")

    @agent.tool_plain
    def find_order(order_id: str) -> str:
        """Find an order."""
        raise AssertionError("a model Step runs no tool")

    return agent


def blocks(request: Json, kind: str) -> list[Any]:
    return [
        block
        for sent in request["messages"]
        if isinstance(sent["content"], list)
        for block in sent["content"]
        if block["type"] == kind
    ]


def refuse_invalid(request: Json) -> None:
    """Fail unless a strict provider would take this request."""
    waiting: list[str] = []
    for sent in request["messages"]:
        content = sent["content"]
        assert content, f"{sent} is empty"
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_result":
                waiting.remove(block["tool_use_id"])
            if block["type"] == "tool_use":
                assert isinstance(block["input"], dict)
                waiting.append(block["id"])
            if block["type"] == "text":
                assert block["text"]
        if sent["role"] == "user":
            assert waiting == [], "a tool call has no result right after it"
    assert [sent["role"] for sent in request["messages"][::2]] == ["user"] * (
        (len(request["messages"]) + 1) // 2
    )


async def test_anthropic__signatures_come_back_byte_for_byte() -> None:
    async with provider(
        message(
            thinking("Which order?", SIGNATURE),
            text("Let me look."),
            call("find_order", '{"order_id": "7"}', "toolu_a"),
            call("find_order", '{"order_id": "8"}', "toolu_b"),
        ),
        message(thinking("Found.", SIGNATURE), text("Delivered.")),
        message(text("Welcome.")),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        asked = await played.ask("Where are my orders?")
        await played.resume(succeeded("toolu_a", "delivered"), rejected("toolu_b", "Not that."))
        done = await played.ask("Thanks")

    assert isinstance(asked, ToolCallsRequested)
    assert isinstance(done, TurnCompleted)
    for request in server.requests:
        refuse_invalid(request)
    assert [
        [block["signature"] for block in blocks(request, "thinking")] for request in server.requests
    ] == [[], [SIGNATURE], [SIGNATURE, SIGNATURE]]
    results = blocks(server.requests[1], "tool_result")
    assert [[part["text"] for part in block["content"]] for block in results] == [
        ["delivered"],
        ["Not that."],
    ]
    assert played.events.told[:2] == [
        ("reasoning_delta", "Which order?"),
        ("text_delta", "Let me look."),
    ]
    assert (asked.usage.output_tokens, asked.usage.cache_read_tokens) == (7, 3)


async def test_anthropic__malformed_arguments_never_reach_it_again() -> None:
    async with provider(
        message(call("find_order", '{"order_id": "7"', "toolu_a")),
        message(call("find_order", '{"order_id": "7"}', "toolu_b")),
        message(text("Done.")),
        message(text("Again.")),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        await played.ask("Where is my order?")
        await played.resume(failed("toolu_b", "no such order"))
        await played.ask("Thanks")

    for request in server.requests:
        refuse_invalid(request)


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_anthropic__a_refused_call_fails_the_attempt_and_its_retry_asks_the_same(
    status: int,
) -> None:
    async with provider(refused(status), message(text("Hello."))) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        with pytest.raises(ModelStepFailed, match=f"^Model.*Error: .*{status}"):
            await played.ask("Hi")
        done = await played.call_model()

    assert isinstance(done, TurnCompleted)
    assert server.requests[0] == server.requests[1]


async def test_anthropic__a_client_that_is_told_when_to_retry_does_so_within_the_attempt() -> None:
    refusal = refused(429, retry_after="0.001")
    async with provider(refusal, message(text("Hello.")), max_retries=1) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        done = await played.ask("Hi")

    assert isinstance(done, TurnCompleted)
    assert done.usage.requests == 1
    assert played.events.told == [("text_delta", "Hello.")]
    assert server.requests[0] == server.requests[1]


@pytest.mark.parametrize("after_frames", [1, 3, 5])
async def test_anthropic__a_cut_stream_fails_the_attempt_and_its_retry_starts_afresh(
    after_frames: int,
) -> None:
    whole = message(thinking("Hm.", SIGNATURE), text("Hel", "lo."))
    async with provider(cut(whole, after_frames=after_frames), whole) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        with pytest.raises(ModelStepFailed) as failed:
            await played.ask("Hi")
        done = await played.call_model()

    assert isinstance(done, TurnCompleted)
    # The provider tells with its first frame what its input took.
    assert (failed.value.usage.input_tokens, failed.value.usage.output_tokens) == (14, 1)
    assert failed.value.usage.requests == (after_frames > 1)
    assert [sent.text for sent in played.messages] == ["Hi", "Hello."]
    assert server.requests[0] == server.requests[1]


async def test_anthropic__what_a_user_sends_beside_text_is_on_the_wire_in_every_request() -> None:
    photo = BinaryContent(b"png", media_type="image/png")
    bill = DocumentUrl("https://example.com/7.pdf")
    async with provider(
        message(thinking("Hm.", SIGNATURE), call("find_order", '{"order_id": "7"}', "toolu_a")),
        message(text("Done.")),
        message(text("Again.")),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        await played.ask("Mine?", user_content(photo, bill))
        await played.resume(succeeded("toolu_a", "delivered"))
        await played.ask("Thanks")

    for request in server.requests:
        refuse_invalid(request)
        [image], [document] = blocks(request, "image"), blocks(request, "document")
        assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "cG5n"}
        assert document["source"] == {"type": "url", "url": "https://example.com/7.pdf"}
