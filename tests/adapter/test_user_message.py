"""A user sends more than text: it reaches the model behind the text, stays in the history, and is named for people."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    BinaryImage,
    CachePoint,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    TextContent,
    UploadedFile,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from dex_agents_model import (
    AgentUserMessage,
    FrameworkMessage,
    MessageRole,
    TakesUserContent,
)
from dex_agents_model.user_messages import content_refusal
from dex_agents_pydantic_ai import PydanticAIRunner, user_content
from dex_agents_pydantic_ai.user_message import build_user_message

from .doubles import ScriptedModel, Session, loaded, succeeded, tool_calls

PNG = BinaryImage(b"png", media_type="image/png")
PDF = DocumentUrl("https://example.com/order.pdf")


def prompts(messages: list[ModelMessage]) -> list[object]:
    """What users said in a model's input."""
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def prompt_of(message: FrameworkMessage) -> object:
    [prompt] = prompts([loaded(message)])
    return prompt


# --- the form --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("a caption", "\n\na caption"),
        (TextContent("a caption", metadata={"page": 3}), "\n\na caption"),
        (PNG, "\n[image/png, 3 bytes]"),
        (BinaryContent(b"\xff\xfe", media_type="application/pdf"), "\n[application/pdf, 2 bytes]"),
        (ImageUrl("https://example.com/7", force_download=True, media_type="image/gif"),
         "\n[image-url https://example.com/7]"),
        (AudioUrl("https://example.com/7.mp3"), "\n[audio-url https://example.com/7.mp3]"),
        (VideoUrl("https://example.com/7.mp4", vendor_metadata={"fps": 1}),
         "\n[video-url https://example.com/7.mp4]"),
        (PDF, "\n[document-url https://example.com/order.pdf]"),
        (UploadedFile(file_id="f-1", provider_name="openai", media_type="image/png"),
         "\n[file f-1 at openai]"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_user_content__is_read_again_behind_the_text(piece: UserContent, shown: str) -> None:
    built = build_user_message("Look:", user_content(piece))

    assert (built.role, built.text) == (MessageRole.USER, f"Look:{shown}")
    assert prompt_of(built) == ["Look:", piece]


def test_user_content__keeps_the_order_of_its_pieces() -> None:
    built = build_user_message("Compare.", user_content("old:", PNG, CachePoint(), "new:", PDF))

    assert prompt_of(built) == ["Compare.", "old:", PNG, CachePoint(), "new:", PDF]
    assert built.text == (
        "Compare.\n\nold:\n[image/png, 3 bytes]\n\nnew:\n[document-url https://example.com/order.pdf]"
    )


@pytest.mark.parametrize("text", ["", " \n"])
def test_user_content__stands_alone_when_the_text_is_blank(text: str) -> None:
    built = build_user_message(text, user_content(PNG))

    assert (prompt_of(built), built.text) == ([PNG], "[image/png, 3 bytes]")


def test_user_content__gives_the_same_item_for_the_same_message() -> None:
    assert build_user_message("Look:", user_content(PNG)) == build_user_message(
        "Look:", user_content(PNG)
    )


def test_user_content__is_storable() -> None:
    built = build_user_message("a\ud800", user_content("b\udfff\x00", PNG))

    assert prompt_of(built) == ["a\ufffd", "b\ufffd\ufffd", PNG]
    assert "\x00" not in built.framework_item
    built.framework_item.encode()


def test_content_of_another_writer__is_made_storable() -> None:
    built = build_user_message("a", '["\\ud800b\\u0000"]')

    assert prompt_of(built) == ["a", "\ufffdb\ufffd"]
    assert built.text == "a\n\n\ufffdb\ufffd"


@pytest.mark.parametrize("pieces", [(), (CachePoint(),)])
def test_user_content__needs_something_to_show(pieces: tuple[UserContent, ...]) -> None:
    with pytest.raises(ValueError, match="at least one text, image, document or other file"):
        user_content(*pieces)


@pytest.mark.parametrize("piece", [object(), b"png", 7, {"kind": "nonsense"}])
def test_user_content__refuses_what_is_no_piece_of_a_prompt(piece: Any) -> None:
    name = type(piece).__name__
    with pytest.raises(ValueError, match=f"a {name} cannot be sent in a message: ") as raised:
        user_content("Look:", piece)
    assert len(str(raised.value)) < 700


def test_user_content__refuses_what_has_no_json_form() -> None:
    with pytest.raises(ValueError, match="a TextContent cannot be sent in a message: "):
        user_content(TextContent("Look:", metadata=object()))


def test_user_content__refuses_what_could_not_be_read_again() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="the content beside the text cannot be read"):
        user_content(nothing)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nonsense", "is no JSON"),
        ("{}", "is no list of pieces"),
        ("[]", "is no list of pieces"),
        ('"text"', "is no list of pieces"),
        ('[{"kind": "binary"}]', "cannot be read"),
        ("[7]", "cannot be read"),
    ],
)
def test_runner__says_what_it_cannot_read(content: str, words: str) -> None:
    runner = PydanticAIRunner(Agent())

    assert isinstance(runner, TakesUserContent)
    refusal = content_refusal(runner, AgentUserMessage("Look:", framework_content=content))
    assert refusal is not None
    assert words in refusal
    assert content_refusal(runner, AgentUserMessage("Hi", framework_content='["x"]')) is None


# --- in a session ----------------------------------------------------------------------------


def find(x: int) -> str:
    raise AssertionError("a model Step runs no tool")


@pytest.mark.parametrize("settings", [{}, {"system_prompt": "SYS"}], ids=["", "system prompt"])
async def test_turn__shows_the_content_to_the_model_now_and_later(settings: Any) -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["one"], ["two"])
    played = Session(PydanticAIRunner(Agent(tools=[find], **settings), model=model))

    await played.ask("Look:", user_content(PNG))
    await played.resume(succeeded("a", "1"))
    await played.ask("And now?")

    said = ["Look:", PNG]
    assert [prompts(sent) for sent in model.received] == [[said], [said], [said, "And now?"]]
    assert [message.text for message in played.messages if message.text][:2] == [
        "Look:\n[image/png, 3 bytes]",
        "1",
    ]


async def test_steering__may_hold_files_among_other_messages() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"], ["bye"])
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))
    await played.ask("hi")

    await played.resume(
        succeeded("a", "1"),
        steering=(
            "Stop.",
            AgentUserMessage("This one:", framework_content=user_content(PNG)),
            AgentUserMessage("", framework_content="nonsense"),
        ),
    )
    await played.ask("thanks")

    left_out = "[What the user sent beside this text was left out: the agent cannot read it.]"
    steered = ["Stop.", "This one:", PNG, left_out]
    assert [prompts(sent) for sent in model.received[1:]] == [
        ["hi", steered],
        ["hi", steered, "thanks"],
    ]
    assert [(m.role.value, m.text) for m in played.messages[2:4]] == [
        ("tool", "1"),
        ("user", f"Stop.\n\nThis one:\n[image/png, 3 bytes]\n\n{left_out}"),
    ]


async def test_steering__of_one_message_with_a_file_is_kept_apart_from_the_results() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"])
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))
    await played.ask("hi")

    await played.resume(
        succeeded("a", "1"),
        steering=(AgentUserMessage("This one:", framework_content=user_content(PNG)),),
    )

    assert prompts(model.received[1]) == ["hi", ["This one:", PNG]]
    assert [(m.role.value, m.text) for m in played.messages[2:4]] == [
        ("tool", "1"),
        ("user", "This one:\n[image/png, 3 bytes]"),
    ]


async def test_unfinished_turn__keeps_the_content_of_its_user() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["ok"])
    runner = PydanticAIRunner(Agent(system_prompt="SYS", tools=[find]), model=model)
    played = Session(runner)
    await played.ask("Look:", user_content(PNG))

    kept = runner.build_unfinished_turn_messages(played.unfinished(succeeded("a", "1")))
    assert kept is not None
    played.keep(kept)
    await played.ask("And now?")

    assert prompts(model.received[1]) == [["Look:", PNG], "And now?"]
