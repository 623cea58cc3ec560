"""The path to a real provider: OpenAI's client over HTTP, with what it sends checked on the wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import BinaryContent, ImageUrl
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from dex_agents_model import (
    AgentUserMessage,
    ModelCallMetadata,
    Succeeded,
    ToolCallsRequested,
    TurnCompleted,
)
from dex_agents_pydantic_ai import PydanticAIRunner, user_content
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .doubles import Session, execution, failed, rejected, requested, succeeded, unknown
from .openai_protocol import USED_BY_ONE_CALL, calls, refuse_invalid, text
from .sse_server import Reply, SseServer, cut, refused, sse_server


class Answer(BaseModel):
    """A structured final result."""

    verdict: str


@asynccontextmanager
async def provider(
    *replies: Reply, max_retries: int = 0
) -> AsyncIterator[tuple[SseServer, OpenAIChatModel]]:
    async with (
        sse_server(*replies) as server,
        AsyncOpenAI(
            base_url=f"{server.base_url}/v1", api_key="none", max_retries=max_retries
        ) as client,
    ):
        yield server, OpenAIChatModel("gpt-5.2", provider=OpenAIProvider(openai_client=client))


def order_agent(**settings: Any) -> Agent[None, Any]:
    agent = Agent(instructions="You help customers.", **settings)

    @agent.tool_plain
    def find_order(order_id: str) -> str:
        """Find an order."""
        raise AssertionError("a model Step runs no tool")

    return agent


async def test_openai__a_whole_turn_with_tools() -> None:
    wanted = [
        ("find_order", '{"order_id": "7"}', "call_a"),
        ("find_order", '{"order_id": "8"}', "call_b"),
        ("find_order", '{"order_id": "9"}', "call_c"),
        ("find_order", '{"order_id": "10"}', "call_d"),
    ]
    async with provider(calls(*wanted, content=["Let me ", "look."]), text("All ", "done.")) as (
        server,
        model,
    ):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        asked = await played.ask("Where are my orders?")
        done = await played.resume(
            succeeded("call_a", "delivered"),
            rejected("call_b", "Not that one."),
            failed("call_c", "no such order"),
            unknown("call_d"),
        )

    assert isinstance(asked, ToolCallsRequested)
    assert [
        (call.tool_name, call.arguments, call.tool_call_id) for call in asked.tool_calls
    ] == wanted
    assert isinstance(done, TurnCompleted)
    assert done.new_messages[-1].text == "All done."
    assert (asked.usage, done.usage) == (USED_BY_ONE_CALL, USED_BY_ONE_CALL)
    assert played.events.told == [
        ("text_delta", "Let me "),
        ("text_delta", "look."),
        ("text_delta", "All "),
        ("text_delta", "done."),
    ]
    first, second = (request["messages"] for request in server.requests)
    assert [message["role"] for message in first] == ["system", "user"]
    assert [message["role"] for message in second] == [
        *("system", "user", "assistant"),
        *("tool", "tool", "tool", "tool"),
    ]
    assert [message["tool_call_id"] for message in second[3:]] == [
        call_id for _, _, call_id in wanted
    ]
    assert [message["content"] for message in second[3:5]] == ["delivered", "Not that one."]
    for request in server.requests:
        refuse_invalid(request["messages"])
        assert request["stream"] is True


async def test_openai__later_turns_replay_earlier_ones_as_valid_messages() -> None:
    async with provider(
        calls(
            ("find_order", '{"order_id": "7"}', "call_a"),
            ("final_result", '{"verdict": "early"}', "call_o"),
        ),
        calls(("final_result", '{"verdict": "delivered"}', "call_p")),
        calls(("final_result", '{"verdict": "still delivered"}', "call_q")),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(output_type=Answer), model=model))
        await played.ask("Where is my order?")
        await played.resume(succeeded("call_a", "delivered"))
        await played.ask("Sure?")

    for request in server.requests:
        refuse_invalid(request["messages"])
    assert [message["role"] for message in server.requests[2]["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "user"),
    ]
    assert "early" not in json.dumps(server.requests)


async def test_openai__bad_arguments_are_corrected_and_never_poison_later_requests() -> None:
    async with provider(
        calls(("find_order", '{"order_id": "7"', "call_a")),
        calls(("find_order", '{"order_id": "7"}', "call_b")),
        text("Done."),
        text("Again."),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        asked = await played.ask("Where is my order?")
        await played.resume(succeeded("call_b", "delivered"))
        await played.ask("Thanks")

    assert isinstance(asked, ToolCallsRequested)
    assert [call.tool_call_id for call in asked.tool_calls] == ["call_b"]
    assert asked.usage == USED_BY_ONE_CALL + USED_BY_ONE_CALL
    for request in server.requests:
        refuse_invalid(request["messages"])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_openai__a_refused_call_fails_the_attempt_and_its_retry_asks_the_same(
    status: int,
) -> None:
    async with provider(refused(status), text("Hello.")) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        with pytest.raises(ModelStepFailed, match=f"^Model.*Error: .*{status}"):
            await played.ask("Hi")
        done = await played.call_model()

    assert isinstance(done, TurnCompleted)
    assert server.requests[0] == server.requests[1]


async def test_openai__a_client_that_is_told_when_to_retry_does_so_within_the_attempt() -> None:
    refusal = refused(429, retry_after="0.001")
    async with provider(refusal, text("Hello."), max_retries=1) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        done = await played.ask("Hi")

    assert isinstance(done, TurnCompleted)
    assert done.usage.requests == 1
    assert played.events.told == [("text_delta", "Hello.")]
    assert server.requests[0] == server.requests[1]


async def test_openai__a_cut_stream_fails_the_attempt_and_its_retry_starts_afresh() -> None:
    half = cut(text("Hel", "lo."), after_frames=1)
    async with provider(half, text("Hello.")) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        with pytest.raises(ModelStepFailed):
            await played.ask("Hi")
        done = await played.call_model()

    assert isinstance(done, TurnCompleted)
    assert [message.text for message in played.messages] == ["Hi", "Hello."]
    assert server.requests[0] == server.requests[1]


async def test_openai__unstorable_text_survives_the_turn() -> None:
    async with provider(
        calls(("find_order", '{"order_id": "\\ud800\\u0000x\U0001f600"}', "call_a")),
        text("a\ud800b\x00c"),
        text("Bye."),
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        asked = await played.ask("Hi \ud800")
        await played.resume(succeeded("call_a", "x"))
        await played.ask("Again")

    assert isinstance(asked, ToolCallsRequested)
    [call] = asked.tool_calls
    assert json.loads(call.arguments) == {"order_id": "\ufffd\ufffdx\U0001f600"}
    assert [message.text for message in played.messages if message.role == "user"] == [
        "Hi \ufffd",
        "Again",
    ]
    assert played.messages[3].text == "a\ufffdb\ufffdc"
    assert ("text_delta", "a\ufffdb\ufffdc") in played.events.told
    for request in server.requests:
        refuse_invalid(request["messages"])


async def test_openai__the_call_is_described_for_tracing() -> None:
    async with provider(calls(("find_order", '{"order_id": "7"}', "call_a")), text("Done.")) as (
        _,
        model,
    ):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        asked = await played.ask("Hi")
        done = await played.resume(succeeded("call_a", "delivered"))

    told = ModelCallMetadata(
        request_model="gpt-5.2",
        response_model="scripted-1",
        provider="openai",
        response_id="chatcmpl-1",
        finish_reason="tool_call",
    )
    assert (asked.metadata, done.metadata) == (told, attrs.evolve(told, finish_reason="stop"))


async def test_openai__an_image_of_a_tool_follows_its_result() -> None:
    agent = Agent()

    @agent.tool_plain
    def chart() -> list[object]:
        return ["Sales", BinaryContent(b"png", media_type="image/png", identifier="c1")]

    async with provider(calls(("chart", "{}", "call_a")), text("It rises.")) as (server, model):
        runner = PydanticAIRunner(agent, model=model)
        result = await runner.execute_deferred_tool_call(execution("chart", call_id="call_a"))
        played = Session(runner)
        await played.ask("Show me.")
        await played.resume(
            Succeeded(requested("call_a"), result.output, False, result.framework_content)
        )

    sent = server.requests[1]["messages"]
    refuse_invalid(sent)
    assert [message["role"] for message in sent[:3]] == ["user", "assistant", "tool"]
    assert sent[2]["content"] == '["Sales","See file c1."]'
    [image] = [piece for piece in sent[-1]["content"] if piece["type"] == "image_url"]
    assert image["image_url"]["url"] == "data:image/png;base64,cG5n"


async def test_openai__what_a_user_sends_beside_text_is_on_the_wire_in_every_request() -> None:
    photo = BinaryContent(b"png", media_type="image/png")
    bill = BinaryContent(b"%PDF", media_type="application/pdf")
    async with provider(
        calls(("find_order", '{"order_id": "7"}', "call_a")), text("Done."), text("Again.")
    ) as (server, model):
        played = Session(PydanticAIRunner(order_agent(), model=model))
        await played.ask("Mine?", user_content(photo, "and the bill:", bill))
        await played.resume(
            succeeded("call_a", "delivered"),
            steering=(
                AgentUserMessage(
                    "This:", framework_content=user_content(ImageUrl("https://example.com/7.png"))
                ),
            ),
        )
        await played.ask("Thanks")

    begun = [
        {"type": "text", "text": "Mine?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "text", "text": "and the bill:"},
        {
            "type": "file",
            "file": {
                "file_data": "data:application/pdf;base64,JVBERg==",
                "filename": "filename.pdf",
            },
        },
    ]
    steered = [
        {"type": "text", "text": "This:"},
        {"type": "image_url", "image_url": {"url": "https://example.com/7.png"}},
    ]
    said = [
        [message["content"] for message in request["messages"] if message["role"] == "user"]
        for request in server.requests
    ]
    assert said == [[begun], [begun, steered], [begun, steered, "Thanks"]]
    for request in server.requests:
        refuse_invalid(request["messages"])
