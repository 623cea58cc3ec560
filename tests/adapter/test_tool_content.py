"""What a tool returns beside text: it outlives the tool's Step, and reaches the model and the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    BinaryImage,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ToolAvailabilityDeltaPart,
    ToolReturn,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.toolsets import FunctionToolset

from dex_agents_model import (
    Succeeded,
    ToolCallId,
    ToolExecutionResult,
    TurnCompleted,
    shorten_result,
)
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .doubles import ScriptedModel, Session, execution, loaded, requested, succeeded, tool_calls

PNG = BinaryImage(bytes(range(256)), media_type="image/png")
PDF = DocumentUrl("https://example.com/order.pdf")


class Chart(BaseModel):
    """What a tool returns beside a picture."""

    title: str = Field(serialization_alias="headline")


def agent_returning(value: object) -> Agent[None, str]:
    agent = Agent()

    @agent.tool(name="tool")
    def tool(ctx: RunContext[object]) -> Any:
        return value

    return agent


async def run_tool(agent: Agent[None, str]) -> ToolExecutionResult:
    runner = PydanticAIRunner(agent, model=ScriptedModel())
    return await runner.execute_deferred_tool_call(execution("tool"))


async def resumed(
    value: object, change: Callable[[Succeeded], Succeeded] = lambda record: record
) -> tuple[Session, list[list[ModelMessage]], Succeeded]:
    """A turn whose tool returns ``value``, played to its end, and what the model was sent."""
    agent = agent_returning(value)
    result = await run_tool(agent)
    record = change(
        Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    )
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"], ["later"])
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    assert isinstance(await played.resume(record), TurnCompleted)
    return played, model.received, record


def result_parts(messages: list[ModelMessage]) -> list[tuple[object, object]]:
    """Content and metadata of the tool results in these messages."""
    return [
        (part.content, part.metadata)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def said(messages: list[ModelMessage]) -> list[object]:
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (PNG, "[image/png, 256 bytes]"),
        (BinaryContent(b"x", media_type="application/pdf"), "[application/pdf, 1 bytes]"),
        (ImageUrl("https://example.com/a.png"), "[image-url https://example.com/a.png]"),
        (AudioUrl("https://example.com/a.mp3"), "[audio-url https://example.com/a.mp3]"),
        (VideoUrl("https://example.com/a.mp4"), "[video-url https://example.com/a.mp4]"),
        (PDF, "[document-url https://example.com/order.pdf]"),
        (
            UploadedFile(file_id="f-1", provider_name="openai", media_type="image/png"),
            "[file f-1 at openai]",
        ),
    ],
)
async def test_file__reaches_the_model_and_the_history_and_is_named_in_the_text(
    file: object, text: str
) -> None:
    played, received, record = await resumed(file)
    await played.ask("and?")

    assert record.output == text
    assert result_parts(received[1]) == [(file, None)]
    assert result_parts(received[2]) == [(file, None)]


async def test_files__keep_their_place_among_data() -> None:
    _, received, record = await resumed([Chart(title="Sales"), PNG, "and", PDF])

    assert record.output == (
        '[{"headline":"Sales"},"and"]\n'
        "[image/png, 256 bytes]\n[document-url https://example.com/order.pdf]"
    )
    assert result_parts(received[1]) == [([{"headline": "Sales"}, PNG, "and", PDF], None)]


async def test_words_and_metadata__stand_beside_the_result() -> None:
    value = ToolReturn("shot", content=["Look:", PNG], metadata={"page": 3, "chart": {"t": b"x"}})
    played, received, record = await resumed(value)
    await played.ask("and?")

    assert record.output == "shot"
    for sent in received[1:]:
        assert result_parts(sent) == [("shot", {"page": 3, "chart": {"t": "eA=="}})]
        assert said(sent)[:2] == ["hi", ["Look:", PNG]]


async def test_words_of_a_tool__are_not_shown_as_the_users_but_steering_is() -> None:
    agent = agent_returning(ToolReturn("shot", content="Look at it closely."))
    result = await run_tool(agent)
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"])
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    await played.resume(record, steering=("Be quick.",))

    assert said(model.received[1]) == ["hi", "Look at it closely.", "Be quick."]
    assert [(message.role.value, message.text) for message in played.messages] == [
        ("user", "hi"),
        ("assistant", None),
        ("tool", "shot"),
        ("user", "Be quick."),
        ("assistant", "done"),
    ]


async def test_steering__that_repeats_a_tools_words_is_the_users() -> None:
    agent = agent_returning(ToolReturn("shot", content="Look."))
    result = await run_tool(agent)
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"])
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    await played.resume(record, steering=("Look.",))

    assert [(m.role.value, said([loaded(m)])) for m in played.messages[2:4]] == [
        ("tool", ["Look."]),
        ("user", ["Look."]),
    ]


async def test_plain_result__is_its_text_alone() -> None:
    for value in ("text", {"x": 1}, None, ToolReturn("text"), ToolReturn("text", content=[])):
        assert (await run_tool(agent_returning(value))).framework_content is None


async def test_unfinished_turn__keeps_what_stands_beside_a_result() -> None:
    agent = agent_returning(ToolReturn(PNG, content="Look.", metadata=7))
    result = await run_tool(agent)
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    model = ScriptedModel(tool_calls(("tool", "{}", "a"), ("tool", "{}", "b")))
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)
    await played.ask("hi")

    kept = runner.build_unfinished_turn_messages(played.unfinished(record, succeeded("b", "plain")))

    assert kept is not None
    last = loaded(kept[-1])
    assert result_parts([last]) == [(PNG, 7), ("plain", None)]
    assert [type(part) for part in last.parts] == [ToolReturnPart, ToolReturnPart, UserPromptPart]
    assert said([last]) == ["Look."]


async def test_text_that_was_cut__stands_before_the_files_in_place_of_the_tools_own() -> None:
    _, received, _ = await resumed(
        ["long", PNG, "longer"],
        lambda record: attrs.evolve(record, output="lo[cut]", output_truncated=True),
    )

    assert result_parts(received[1]) == [(["lo[cut]", PNG], None)]


async def test_edited_arguments__are_told_before_the_files() -> None:
    _, received, _ = await resumed(
        PNG,
        lambda record: attrs.evolve(record, call=attrs.evolve(record.call, arguments_edited=True)),
    )

    [(content, _)] = result_parts(received[1])
    assert content == [
        "[An approver changed the arguments to {}]\n[image/png, 256 bytes]",
        PNG,
    ]


async def test_shortened_result__is_shown_without_files_and_kept_with_them() -> None:
    agent = agent_returning(ToolReturn(["x" * 9000, PNG], metadata=7))
    result = await run_tool(agent)
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), tool_calls(("tool", "{}", "b")), ["d"])
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    played.shortened = frozenset({ToolCallId("a")})
    await played.resume(record)
    await played.resume(succeeded("b", "plain"))

    short = shorten_result(result.output)
    assert result_parts(model.received[1]) == [(short, 7)]
    assert result_parts(model.received[2]) == [(short, 7), ("plain", None)]
    assert result_parts([loaded(message) for message in played.messages]) == [
        (["x" * 9000, PNG], 7),
        ("plain", None),
    ]


async def test_content_without_a_json_form__is_left_out_with_a_marker() -> None:
    result = await run_tool(agent_returning(ToolReturn("done", metadata=object())))

    assert result == ToolExecutionResult(
        "done\n[What tool returned beside this text was left out: it has no JSON form.]"
    )


async def test_content__is_storable() -> None:
    _, received, record = await resumed(
        ToolReturn("x", content="a\ud800b\x00", metadata={"\udfff": "\ud800"})
    )

    assert record.framework_content is not None
    assert record.framework_content.encode().decode() == record.framework_content
    assert said(received[1]) == ["hi", "a\ufffdb\ufffd"]
    assert result_parts(received[1]) == [("x", {"\ufffd": "\ufffd"})]


async def test_content_that_cannot_be_read__fails_the_attempt() -> None:
    with pytest.raises(ModelStepFailed, match="content of tool call a cannot be read"):
        await resumed("x", lambda record: attrs.evolve(record, framework_content="[7]"))


async def test_tools_that_a_result_reveals__are_shown_to_the_model() -> None:
    def refund() -> str:
        return "refunded"

    def unlock() -> ToolReturn[str]:
        return ToolReturn("unlocked", tools=["refund"])

    agent = Agent(tools=[unlock], toolsets=[FunctionToolset([refund]).defer_loading()])
    runner = PydanticAIRunner(agent, model=ScriptedModel())
    result = await runner.execute_deferred_tool_call(execution("unlock"))
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)
    model = ScriptedModel(tool_calls(("unlock", "{}", "a")), ["done"])
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    await played.resume(record)

    before, after = ({tool.name for tool in info.function_tools} for info in model.infos)
    assert ("refund" in before, "refund" in after) == (False, True)
    assert [
        part.tools_added
        for message in played.messages
        for part in loaded(message).parts
        if isinstance(part, ToolAvailabilityDeltaPart)
    ] == [["refund"]]
