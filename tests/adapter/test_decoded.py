"""Stored messages are decoded once, and nobody's changes to one reach the next who reads it."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from dex_agents_model import AgentMessage, MessageRole, TurnId
from dex_agents_model.text import size_bytes
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.decoded import DecodedMessages
from dex_agents_pydantic_ai.history import to_stored

from .doubles import ScriptedModel, Session


def stored(text: str) -> AgentMessage:
    item = to_stored(ModelRequest([UserPromptPart(text)])).framework_item
    return AgentMessage(1, TurnId.of(1), MessageRole.USER, item)


def heart(message: ModelMessage) -> object:
    """What copies of one decoding share, and two decodings do not."""
    [part] = message.parts
    assert isinstance(part, UserPromptPart)
    return part.timestamp


def test_decoded__is_read_once_while_there_is_room() -> None:
    first, second, third = (stored(text) for text in "abc")
    decode = DecodedMessages(capacity_bytes=2 * (size_bytes(first.framework_item) + 512))

    one, two = heart(decode(first)), heart(decode(second))
    assert (heart(decode(second)) is two, heart(decode(first)) is one) == (True, True)
    decode(third)
    assert (heart(decode(first)) is one, heart(decode(second)) is two) == (True, False)


def test_decoded__gives_everyone_a_copy_of_their_own() -> None:
    decode = DecodedMessages()
    message = stored("a")
    mine = decode(message)
    before = decode(message)

    [part] = mine.parts
    assert isinstance(part, UserPromptPart)
    part.content = "changed"
    assert isinstance(mine.parts, list)
    mine.parts.clear()

    assert decode(message) == before


def test_decoded__copies_what_is_inside_a_part_too() -> None:
    decode = DecodedMessages()
    request = ModelRequest([ToolReturnPart("find", {"rows": [{"name": "n"}]}, "a")])
    message = AgentMessage(1, TurnId.of(1), MessageRole.TOOL, to_stored(request).framework_item)

    part: Any = decode(message).parts[0]
    part.content["rows"][0]["name"] = "hidden"

    assert decode(message) == request


async def test_history_processor__that_changes_messages_in_place_changes_no_later_model_call() -> (
    None
):
    def shout(messages: list[ModelMessage]) -> list[ModelMessage]:
        for message in messages:
            for part in message.parts:
                if isinstance(part, UserPromptPart | TextPart):
                    part.content = f"{part.content}!"
        return messages

    model = ScriptedModel(["one"], ["two"], ["three"])
    played = Session(PydanticAIRunner(Agent(capabilities=[ProcessHistory(shout)]), model=model))
    for text in ("a", "b", "c"):
        await played.ask(text)

    assert [
        [part.content for message in sent for part in message.parts if hasattr(part, "content")]
        for sent in model.received
    ] == [["a!"], ["a!", "one!", "b!"], ["a!", "one!", "b!", "two!", "c!"]]
    assert isinstance(model.received[1][1], ModelResponse)
