"""What a turn leaves in the session, how it is shown, and what the next turns replay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, ReinjectSystemPrompt
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    ToolSearchReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from dex_agents_model import (
    AgentMessage,
    FrameworkMessage,
    MessageRole,
    TurnId,
)
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed
from dex_agents_pydantic_ai.history import (
    RunState,
    earlier_turns,
    from_stored,
    to_stored,
    user_prompt,
)
from dex_agents_pydantic_ai.user_message import build_user_message

from .doubles import ScriptedModel, Session, loaded, succeeded, tool_calls

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
PNG = BinaryContent(b"png", media_type="image/png")


class Answer(BaseModel):
    """A structured final result."""

    text: str


def agent_with_find(**settings: Any) -> Agent[None, Any]:
    agent = Agent(**settings)

    @agent.tool_plain
    def find(x: int) -> str:
        raise AssertionError("a model Step runs no tool")

    return agent


def shown(messages: list[AgentMessage]) -> list[tuple[str, str | None, str | None]]:
    return [(message.role.value, message.text, message.tool_name) for message in messages]


def contents(
    messages: list[ModelMessage], kind: type[UserPromptPart | SystemPromptPart]
) -> list[object]:
    """What the parts of one kind hold, in order."""
    return [
        part.content for message in messages for part in message.parts if isinstance(part, kind)
    ]


# --- the display projection ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "role", "text", "tool_call_id", "tool_name"),
    [
        (ModelResponse([TextPart("hello")]), "assistant", "hello", None, None),
        (ModelResponse([ThinkingPart("hm")]), "assistant", None, None, None),
        (ModelResponse([]), "assistant", None, None, None),
        (
            ModelResponse([TextPart("let me see"), ToolCallPart("f", {}, "a")]),
            *("assistant", "let me see", "a", "f"),
        ),
        (
            ModelResponse([ToolCallPart("f", {}, "a"), ToolCallPart("g", {}, "b")]),
            *("assistant", None, None, None),
        ),
        (ModelRequest([ToolReturnPart("f", "x", "a")]), "tool", "x", "a", "f"),
        (ModelRequest([ToolReturnPart("f", {"x": 1}, "a")]), "tool", '{"x":1}', "a", "f"),
        (
            ModelRequest([ToolReturnPart("f", "x", "a"), UserPromptPart("and")]),
            *("tool", "x", "a", "f"),
        ),
        (
            ModelRequest([ToolReturnPart("f", ["x", PNG], "a")]),
            *("tool", "x\n[image/png, 3 bytes]", "a", "f"),
        ),
        (
            ModelRequest([ToolReturnPart("f", "é" * 2000, "a")]),
            *("tool", "é" * 1024 + "... [4000 bytes in full]", "a", "f"),
        ),
        (
            ModelRequest(
                [
                    ToolReturnPart("f", "x", "a"),
                    ToolReturnPart("g", "no such order", "b", outcome="failed"),
                ]
            ),
            *("tool", "f: x\ng: no such order", None, None),
        ),
        (ModelRequest([SystemPromptPart("be nice")]), "user", None, None, None),
        (ModelRequest([UserPromptPart("hi")]), "user", "hi", None, None),
        (
            ModelRequest([UserPromptPart(["hi", PNG, CachePoint(), "and", PNG])]),
            *("user", "hi\n[image/png, 3 bytes]\n\nand\n[image/png, 3 bytes]", None, None),
        ),
        (ModelRequest([UserPromptPart([PNG])]), "user", "[image/png, 3 bytes]", None, None),
    ],
)
def test_to_stored__shows_a_message_as_the_table_says(
    message: ModelMessage,
    role: str,
    text: str | None,
    tool_call_id: str | None,
    tool_name: str | None,
) -> None:
    stored = to_stored(message)

    assert stored == FrameworkMessage(
        MessageRole(role),
        stored.framework_item,
        text,
        tool_call_id,
        tool_name,
        stored.estimated_tokens,
    )


def test_to_stored__keeps_the_message_as_the_type_adapter_writes_it_without_nulls() -> None:
    message = ModelResponse([TextPart("hello")], timestamp=NOON, provider_response_id="r-1")

    stored = to_stored(message)

    written = ModelMessagesTypeAdapter.dump_json([message], exclude_none=True).decode()
    assert stored.framework_item == written
    assert "null" not in written
    assert loaded(stored) == message


@pytest.mark.parametrize(
    "message",
    [
        ModelRequest([ToolReturnPart("f", None, "a", timestamp=NOON)]),
        ModelRequest([ToolReturnPart("f", "x", "a", metadata={"k": None}, timestamp=NOON)]),
        ModelRequest([ToolReturnPart("f", {"k": [None]}, "a", timestamp=NOON)]),
        ModelRequest(
            [
                ToolSearchReturnPart(
                    content={"discovered_tools": [{"name": "f"}]},
                    tool_call_id="a",
                    timestamp=NOON,
                )
            ]
        ),
        ModelRequest([ToolReturnPart("f", ImageUrl("https://example.com/7"), "a", timestamp=NOON)]),
        ModelResponse([ToolCallPart("f", {"x": None}, "a")], timestamp=NOON),
        ModelResponse([ToolCallPart("f", None, "a")], timestamp=NOON),
        ModelResponse([ThinkingPart("hm", signature="s")], timestamp=NOON, metadata={"k": None}),
    ],
)
def test_to_stored__keeps_every_null_that_means_something(message: ModelMessage) -> None:
    assert loaded(to_stored(message)) == message


def test_build_user_message__gives_the_same_item_for_the_same_text() -> None:
    first, second = build_user_message("héllo"), build_user_message("héllo")

    assert first == second
    assert (first.role, first.text) == (MessageRole.USER, "héllo")
    [prompt] = loaded(first).parts
    assert isinstance(prompt, UserPromptPart)
    assert prompt.content == "héllo"


def stored_as(item: str) -> AgentMessage:
    return AgentMessage(3, TurnId.of(1), MessageRole.USER, item)


@pytest.mark.parametrize("item", ["", "[]", "nonsense", '[{"kind":"other"}]'])
def test_from_stored__refuses_what_is_no_message(item: str) -> None:
    with pytest.raises(ModelStepFailed, match="message 3 of the session"):
        from_stored(stored_as(item))


def test_user_prompt__refuses_a_message_without_one() -> None:
    item = to_stored(ModelRequest([SystemPromptPart("be nice")])).framework_item

    with pytest.raises(ModelStepFailed, match="message 3 of the session holds no user prompt"):
        user_prompt(stored_as(item))


# --- what is replayed ------------------------------------------------------------------------


def stored_turn(number: int, *messages: FrameworkMessage) -> list[AgentMessage]:
    return [
        AgentMessage(index, TurnId.of(number), message.role, message.framework_item, message.text)
        for index, message in enumerate(messages, start=1)
    ]


@pytest.mark.parametrize(
    ("stored", "replayed"),
    [
        ([ModelRequest([SystemPromptPart("SYS"), UserPromptPart("hi")])], [["SYS", "hi"]]),
        ([ModelRequest([SystemPromptPart("SYS")])], [["hi"], ["SYS"]]),
        ([ModelResponse([TextPart("yes")])], [["hi"], ["yes"]]),
        ([], [["hi"]]),
        (
            [
                ModelResponse([TextPart("yes")]),
                ModelRequest([UserPromptPart("go on")]),
                ModelRequest([SystemPromptPart("SYS"), UserPromptPart("hi")]),
            ],
            [["hi"], ["yes"], ["go on"], ["SYS", "hi"]],
        ),
    ],
    ids=["opening", "no prompt in it", "answer", "nothing", "later in the turn"],
)
def test_earlier_turns__lets_only_an_opening_request_stand_for_the_user_message(
    stored: list[ModelMessage], replayed: list[list[str]]
) -> None:
    turn = stored_turn(1, build_user_message("hi"), *map(to_stored, stored))

    assert [
        [getattr(part, "content", None) for part in message.parts]
        for message in earlier_turns(
            [*turn, *stored_turn(2, build_user_message("more"))], from_stored
        )
    ] == [*replayed, ["more"]]


# --- the run state ---------------------------------------------------------------------------


@pytest.mark.parametrize("signature", ["sig==", "sig\x00=="], ids=["plain", "odd"])
def test_run_state__survives_the_way_through_json(signature: str) -> None:
    state = RunState(
        messages=(
            ModelRequest(
                [
                    UserPromptPart(
                        ["look", BinaryContent(b"\x00\xff", media_type="application/pdf")]
                    )
                ],
                timestamp=NOON,
            ),
            ModelRequest(
                [
                    ToolReturnPart(
                        "f", ["x", BinaryContent(b"\xfe\xff", media_type="application/pdf")], "z"
                    )
                ],
                timestamp=NOON,
            ),
            ModelResponse(
                [
                    ThinkingPart("hm", signature=signature, provider_name="p"),
                    ToolCallPart("f", '{"x": 1}', "a"),
                ],
                timestamp=NOON,
            ),
        ),
        call_ids=("a",),
    )

    again = RunState.from_json(state.to_json())

    assert again == state
    assert set(json.loads(state.to_json())) == {"messages", "calls"}


# --- whole turns -----------------------------------------------------------------------------


async def test_turn__stores_everything_after_the_user_message_in_order() -> None:
    model = ScriptedModel(
        ["let me see", *tool_calls(("find", '{"x":1}', "a"))],
        tool_calls(("final_result", '{"text":"done"}', "o")),
    )
    played = Session(PydanticAIRunner(agent_with_find(output_type=Answer), model=model))

    await played.ask("hi")
    await played.resume(succeeded("a", "1"))

    assert shown(played.messages) == [
        ("user", "hi", None),
        ("assistant", "let me see", "find"),
        ("tool", "1", "find"),
        ("assistant", None, "final_result"),
        ("tool", "Final result processed.", "final_result"),
    ]


async def test_turn__keeps_an_opening_request_that_holds_more_than_the_prompt() -> None:
    model = ScriptedModel(["one"], ["two"])
    played = Session(PydanticAIRunner(Agent(system_prompt="SYS"), model=model))

    await played.ask("first")
    await played.ask("second")

    assert shown(played.messages) == [
        ("user", "first", None),
        ("user", None, None),
        ("assistant", "one", None),
        ("user", "second", None),
        ("assistant", "two", None),
    ]
    replayed = model.received[1]
    assert contents(replayed, UserPromptPart) == ["first", "second"]
    assert contents(replayed, SystemPromptPart) == ["SYS"]


async def test_turn__keeps_what_a_hook_said_beside_the_prompt() -> None:
    @dataclass
    class Reminds(AbstractCapability[Any]):
        async def before_model_request(
            self, ctx: RunContext[Any], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            last = ctx.messages[-1]
            assert isinstance(last, ModelRequest)
            if len(last.parts) == 1:
                last.parts = [*last.parts, UserPromptPart("Be kind.")]
            return request_context

    model = ScriptedModel(["one"], ["two"])
    played = Session(PydanticAIRunner(Agent(capabilities=[Reminds()]), model=model))

    await played.ask("first")
    await played.ask("second")

    assert contents(model.received[1], UserPromptPart)[:3] == ["first", "Be kind.", "second"]
    assert shown(played.messages)[:3] == [
        ("user", "first", None),
        ("user", None, None),
        ("assistant", "one", None),
    ]


async def test_turn__leaves_out_an_opening_request_that_repeats_the_prompt() -> None:
    played = Session(PydanticAIRunner(Agent(instructions="INS"), model=ScriptedModel(["one"])))

    await played.ask("first")

    assert [message.role for message in played.messages] == ["user", "assistant"]


async def test_turn__replays_a_failed_turn_as_it_is_stored() -> None:
    model = ScriptedModel(["fine"], ["really"])
    played = Session(PydanticAIRunner(Agent(system_prompt="SYS"), model=model))
    played.speak("first")
    played.fail_turn("[Dex] The previous turn failed after these tool calls ran:")

    await played.ask("second")
    await played.ask("third")

    prompts = contents(model.received[0], UserPromptPart)
    assert prompts == [
        "first",
        "[Dex] The previous turn failed after these tool calls ran:",
        "second",
    ]
    # Stored nowhere, the agent's system prompt is put back before each call.
    assert [contents(sent, SystemPromptPart) for sent in model.received] == [["SYS"], ["SYS"]]
    assert [message.text for message in played.messages] == [
        *prompts,
        "fine",
        "third",
        "really",
    ]


async def test_turn__leaves_the_agents_own_reinjection_alone() -> None:
    agent = Agent(system_prompt="SYS", capabilities=[ReinjectSystemPrompt(replace_existing=True)])
    model = ScriptedModel(["one"], ["two"])
    played = Session(PydanticAIRunner(agent, model=model))

    await played.ask("first")
    old = Agent(system_prompt="NEWER", capabilities=[ReinjectSystemPrompt(replace_existing=True)])
    played.runner = PydanticAIRunner(old, model=model)
    await played.ask("second")

    assert contents(model.received[1], SystemPromptPart) == ["NEWER"]
