"""Text that cannot be stored is replaced at the border, and nothing else is touched."""

from __future__ import annotations

import json

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaThinkingPart

from dex_agents_model import ToolCallsRequested
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.cleaning import clean_arguments, clean_json, clean_response
from dex_agents_pydantic_ai.history import RunState, to_stored

from .doubles import ScriptedModel, Session, loaded, succeeded, tool_call

BAD = "a\ud800b\x00c\x7f\N{GRINNING FACE}"
GOOD = "a\ufffdb\ufffdc\x7f\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"x": 1}', '{"x": 1}'),
        ('{ "x" :\t1 }', '{ "x" :\t1 }'),
        ('{"x": "\\u00e9"}', '{"x": "\\u00e9"}'),
        ('{"x": "\\ud83d\\ude00"}', '{"x": "\\ud83d\\ude00"}'),
        ('{"x": "\\ud800"}', '{"x": "\ufffd"}'),
        ('{"x": "\\u0000"}', '{"x": "\ufffd"}'),
        ('{"\\udfff": ["\\u0000", 1.5, null]}', '{"\ufffd": ["\ufffd", 1.5, null]}'),
        ('{"x": "\\\\ud800"}', '{"x": "\\\\ud800"}'),
        ('{"x": "\ud800"}', '{"x": "\ufffd"}'),
        ('{"x": "\\ud800', '{"x": "\\ud800'),
        ("", ""),
        ('{"x": 1', '{"x": 1'),
        ("[7]", "[7]"),
        ('{"x": NaN}', '"{\\"x\\": NaN}"'),
        ('{"x": [-Infinity, "\\u0000"]}', '"{\\"x\\": [-Infinity, \\"\\\\u0000\\"]}"'),
        ('{"x": 1e999}', '"{\\"x\\": 1e999}"'),
        ('{"x": 1e-999}', '{"x": 1e-999}'),
    ],
)
def test_clean_arguments__changes_only_what_cannot_be_stored_or_sent(
    written: str, kept: str
) -> None:
    assert clean_arguments(written) == kept


def test_clean_json__cleans_keys_and_values_at_any_depth() -> None:
    assert clean_json({BAD: [BAD, (BAD, 1, None, True)], 7: {"x": 0.5}}) == {
        GOOD: [GOOD, [GOOD, 1, None, True]],
        7: {"x": 0.5},
    }


def test_clean_response__cleans_every_text_and_no_signature() -> None:
    response = ModelResponse(
        [
            TextPart(BAD),
            ThinkingPart(BAD, signature="sig\x00", provider_name="p"),
            ToolCallPart(BAD, {BAD: BAD}, BAD),
            ToolCallPart("f", BAD, "b"),
            ToolCallPart("g", None, "c"),
            ToolCallPart("h", {"x": float("nan")}, "d"),
        ]
    )

    assert clean_response(response).parts == [
        TextPart(GOOD),
        ThinkingPart(GOOD, signature="sig\x00", provider_name="p"),
        ToolCallPart(GOOD, {GOOD: GOOD}, GOOD),
        ToolCallPart("f", GOOD, "b"),
        ToolCallPart("g", None, "c"),
        ToolCallPart("h", '"{\\"x\\":NaN}"', "d"),
    ]


# --- stored messages -------------------------------------------------------------------------


def signed(text: str, signature: str) -> ModelResponse:
    return ModelResponse(
        [
            ThinkingPart(
                text,
                signature=signature,
                provider_name="p",
                provider_details={"encrypted": signature},
            ),
            ToolCallPart("f", {"id": text}, "a"),
        ]
    )


@pytest.mark.parametrize("signature", ["abc+/==", "\x00\x01", "\N{GRINNING FACE}é\n\\u0000"])
def test_to_stored__keeps_a_signature_byte_exact_beside_cleaned_text(signature: str) -> None:
    stored = to_stored(signed(BAD, signature))

    stored.framework_item.encode()
    assert loaded(stored).parts == signed(GOOD, signature).parts


def test_to_stored__replaces_a_signature_that_has_no_bytes() -> None:
    stored = to_stored(signed("x", "s\ud800\x00"))

    assert loaded(stored).parts == signed("x", "s\ufffd\x00").parts


@pytest.mark.parametrize(
    "message",
    [
        ModelRequest([UserPromptPart(BAD)], instructions=BAD),
        ModelRequest([ToolReturnPart("f", {BAD: [BAD]}, "a")]),
        ModelResponse([TextPart(BAD)]),
        ModelResponse([TextPart("a\x00b")]),
    ],
)
def test_to_stored__never_fails_on_text(message: ModelMessage) -> None:
    # Keys with a lone surrogate cannot be turned into JSON data at all.
    if isinstance(message.parts[0], ToolReturnPart):
        message.parts[0].content = {"x": [BAD]}

    stored = to_stored(message)

    stored.framework_item.encode()
    assert "\\u0000" not in stored.framework_item
    assert loaded(stored).kind == message.kind


def test_run_state__never_fails_on_text() -> None:
    state = RunState((ModelRequest([UserPromptPart(BAD)]), ModelResponse([TextPart(BAD)])), ("a",))

    again = RunState.from_json(state.to_json())

    assert [part.content for message in again.messages for part in message.parts] == [GOOD] * 2  # type: ignore[union-attr]  # both have text
    json.loads(state.to_json())


# --- a whole turn ----------------------------------------------------------------------------


async def test_turn__survives_unstorable_text_everywhere() -> None:
    agent = Agent(system_prompt=f"SYS {BAD}")

    @agent.tool_plain
    def find(x: str) -> str:
        return x

    arguments = json.dumps({"x": BAD})
    model = ScriptedModel(
        [{0: DeltaThinkingPart(content=BAD)}, BAD, tool_call("find", arguments, f"id{BAD}")],
        [BAD],
        ["fine"],
    )
    played = Session(PydanticAIRunner(agent, model=model))

    asked = await played.ask(f"hi {BAD}")
    assert isinstance(asked, ToolCallsRequested)
    [call] = asked.tool_calls
    assert (call.tool_call_id, json.loads(call.arguments)) == (f"id{GOOD}", {"x": GOOD})
    await played.resume(succeeded(call.tool_call_id, "found"))
    await played.ask("again")

    assert played.events.told[:2] == [("reasoning_delta", GOOD), ("text_delta", GOOD)]
    assert [message.text for message in played.messages] == [
        *(f"hi {GOOD}", None, GOOD, "found", GOOD),
        *("again", "fine"),
    ]
    for message in played.messages:
        message.framework_item.encode()
