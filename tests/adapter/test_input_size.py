"""About how much of an input messages with files take: by what a file is, not by its size as base64."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    DocumentUrl,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
)

from dex_agents_model import (
    AgentSessionOptions,
    AgentUsage,
    AgentUserMessage,
    CompactionPolicy,
    ToolCallsRequested,
    ToolExecutionResult,
    TurnId,
    react,
)
from dex_agents_model.effects import CallModel, Entered
from dex_agents_model.records import RunningModel
from dex_agents_model.steps import RunModel
from dex_agents_model.user_messages import user_message
from dex_agents_model.views import TurnView
from dex_agents_pydantic_ai import PydanticAIRunner, user_content
from dex_agents_pydantic_ai.history import dump_messages, to_stored
from dex_agents_pydantic_ai.input_size import estimated_tokens
from dex_agents_pydantic_ai.user_message import build_user_message

from .doubles import SESSION, ScriptedModel, Session, execution, tool_calls

MIB = 1024 * 1024
IMAGE = BinaryImage(b"\0" * MIB, media_type="image/png")
FILE_TOKENS = 1600


def binary(size_bytes: int, media_type: str) -> BinaryContent:
    return BinaryContent(b"\0" * size_bytes, media_type=media_type)


@pytest.mark.parametrize(
    ("piece", "tokens"),
    [
        (binary(10, "image/png"), FILE_TOKENS),
        (binary(MIB, "image/png"), FILE_TOKENS),
        (binary(9, "text/plain"), 3),
        (binary(MIB, "text/csv"), MIB // 3),
        (binary(10, "application/pdf"), FILE_TOKENS),
        (binary(MIB, "application/pdf"), MIB // 20),
        (binary(10, "audio/mpeg"), FILE_TOKENS),
        (binary(MIB, "audio/mpeg"), MIB // 300),
        (binary(MIB, "video/mp4"), MIB // 300),
        (DocumentUrl("https://example.com/7.pdf"), FILE_TOKENS),
        (UploadedFile(file_id="f", provider_name="openai", media_type="image/png"), FILE_TOKENS),
    ],
    ids=lambda value: str(getattr(value, "media_type", "")),
)
def test_estimated_tokens__counts_a_file_by_its_kind(piece: UserContent, tokens: int) -> None:
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart(["", piece])])]
    text = dump_messages(messages)
    of_json = estimated_tokens(messages, text)

    assert of_json is not None
    assert tokens <= of_json < tokens + 200  # the JSON around the file is counted as text


@pytest.mark.parametrize(
    "message",
    [
        ModelRequest([UserPromptPart("x" * 3000)]),
        ModelRequest([UserPromptPart(["x" * 3000])]),
        ModelRequest([ToolReturnPart("f", {"x": 1}, "a")]),
        ModelResponse([TextPart("x")]),
    ],
)
def test_estimated_tokens__leaves_text_to_the_session(message: ModelMessage) -> None:
    assert estimated_tokens([message], dump_messages([message])) is None


@pytest.mark.parametrize(
    "message",
    [
        ModelRequest([UserPromptPart(["x" * 3000, IMAGE])]),
        ModelRequest([ToolReturnPart("f", ["x" * 3000, IMAGE], "a")]),
        ModelResponse([TextPart("x" * 3000), FilePart(IMAGE)]),
    ],
    ids=["user", "tool", "model"],
)
def test_stored_message__is_estimated_by_its_text_and_its_files(message: ModelMessage) -> None:
    stored = to_stored(message)

    assert stored.estimated_tokens is not None
    assert 1000 + FILE_TOKENS < stored.estimated_tokens < 1000 + FILE_TOKENS + 200


def test_user_message__is_estimated_as_it_is_stored() -> None:
    built = build_user_message("x" * 3000, user_content(IMAGE))

    assert built.estimated_tokens is not None
    assert 1000 + FILE_TOKENS < built.estimated_tokens < 1000 + FILE_TOKENS + 100
    assert build_user_message("x" * 3000).estimated_tokens is None


@pytest.mark.parametrize(
    ("window_tokens", "is_called"), [(FILE_TOKENS + 300, True), (FILE_TOKENS, False)]
)
def test_model_step__of_an_image_fits_a_window_that_its_bytes_would_not(
    window_tokens: int, is_called: bool
) -> None:
    said = AgentUserMessage("Look:", framework_content=user_content(IMAGE))
    turn = TurnId.of(1)
    policy = CompactionPolicy(context_window_tokens=window_tokens)
    stored = user_message(PydanticAIRunner(Agent()), sequence=1, turn=turn, message=said)
    view = TurnView(
        session_id=SESSION,
        options=AgentSessionOptions(compaction=policy),
        state=RunningModel(turn_count=1, message_count=1, model_calls=0),
        usage=AgentUsage(),
        messages=(stored,),
        run_state=None,
        tool_calls=(),
    )

    reaction = react(RunModel(turn), view, Entered(), datetime(2030, 1, 1, tzinfo=UTC))

    assert isinstance(reaction, CallModel) is is_called


async def test_run_state__is_estimated_with_the_files_of_its_turn() -> None:
    def find() -> str:
        raise AssertionError("a model Step runs no tool")

    model = ScriptedModel(*[tool_calls(("find", "{}", call_id)) for call_id in "ab"])
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))

    with_file = await played.ask("Look:", user_content(IMAGE))
    without = await played.ask("And now?")

    assert isinstance(with_file, ToolCallsRequested)
    assert isinstance(without, ToolCallsRequested)
    assert with_file.run_state_tokens is not None
    assert FILE_TOKENS < with_file.run_state_tokens < FILE_TOKENS + 600
    assert without.run_state_tokens is None


async def test_tool_content__is_estimated_apart_from_the_text() -> None:
    def draw() -> BinaryImage:
        return IMAGE

    def tell() -> str:
        return "x"

    runner = PydanticAIRunner(Agent(tools=[draw, tell]), model=ScriptedModel())
    drawn = await runner.execute_deferred_tool_call(execution("draw"))
    told = await runner.execute_deferred_tool_call(execution("tell"))

    assert drawn.content_tokens is not None
    assert FILE_TOKENS < drawn.content_tokens < FILE_TOKENS + 200
    assert told == ToolExecutionResult("x")
