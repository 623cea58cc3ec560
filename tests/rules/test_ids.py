"""Identifiers: constructing one is parsing it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents_model.ids import (
    InterruptId,
    SessionId,
    ToolCallId,
    TurnId,
    idempotency_key,
    usable_tool_name,
)

CALL_NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=256
).filter(str.strip)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "session 1",
        "x" * 256,
        "\u00fc.-_#",
        " a ",
        "'\"%2F\\",
        "\U0001f469\u200d\U0001f467",
        "-x",
        "..",
        "\xa0b",
    ],
)
def test_session_id__takes_a_name(text: str) -> None:
    assert str(SessionId(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "session ID '' is blank; choose a name"),
        (" \n", "session ID ' \\n' is blank; choose a name"),
        ("a/b", "session ID 'a/b' holds '/'; use any characters but / $ :"),
        ("a:$/", "session ID 'a:$/' holds '$ / :'; use any characters but / $ :"),
        ("x" * 257, f"session ID '{'x' * 40}'... has 257 characters; at most 256 are allowed"),
    ],
)
def test_session_id__refuses_the_rest_and_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 # the whole message is compared below
        SessionId(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "text",
    ["a\x00", "\ud800", "\ude00\ud83d", "a\nb", "a\rb", "\x1b[2J", "\x7f", "\x9b2J", "a\u2028b"],
)
def test_session_id__refuses_what_cannot_be_seen(text: str) -> None:
    message = f"session ID {text!r} holds a control character, a line break or a lone surrogate"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SessionId(text)


@pytest.mark.parametrize(("kind", "text"), [(ToolCallId, "\ud800"), (InterruptId, "turn-1.\ud800")])
def test_ids__refuse_what_utf_8_cannot_hold(
    kind: type[ToolCallId | InterruptId], text: str
) -> None:
    with pytest.raises(ValueError, match="holds a lone surrogate"):
        kind(text)


@given(st.integers(min_value=1))
def test_turn_id__is_numbered_from_1(number: int) -> None:
    turn = TurnId.of(number)

    assert (turn, turn.number, TurnId(turn)) == (f"turn-{number}", number, turn)


def test_turn_id__has_no_number_below_1() -> None:
    with pytest.raises(ValueError, match="turns are counted from 1; there is no turn 0"):
        TurnId.of(0)


@pytest.mark.parametrize(
    "text", ["", "turn-", "turn-0", "turn-01", "turn--1", "turn-1 ", "turn-1\n", "Turn-1", "turn-\u0661"]
)  # fmt: skip
def test_turn_id__refuses_another_form(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form 'turn-<n>', n counted from 1"):
        TurnId(text)


@given(CALL_NAMES)
def test_tool_call_id__takes_any_other_name(text: str) -> None:
    assert str(ToolCallId(text)) == text


@pytest.mark.parametrize("text", ["", " ", "\n", "/", "a/b", "x" * 257, "x" * 100_000])
def test_tool_call_id__refuses_a_blank_or_long_name_and_a_slash(text: str) -> None:
    message = (
        f"tool call ID {text[:40]!r} must have 1 to 256 characters, not be blank, and hold no '/'"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ToolCallId(text)


@given(CALL_NAMES.filter(lambda text: not text.isspace() and "\x00" not in text))
def test_tool_call_id__stands_for_itself_where_it_can(text: str) -> None:
    assert ToolCallId.standing_for(text) == text


@pytest.mark.parametrize("text", ["/", "a/b", "x" * 257, " ", "\n\t", "a/\ud800", "a/\x00"])
def test_tool_call_id__stands_by_a_digest_for_what_a_session_cannot_hold(text: str) -> None:
    standing = ToolCallId.standing_for(text)

    assert re.fullmatch("call-[0-9a-f]{64}", standing)
    assert ToolCallId.standing_for(text) == standing
    assert ToolCallId.standing_for(f"{text}/") != standing


@pytest.mark.parametrize(("text", "cleaned"), [("a\x00", "a\ufffd"), ("\ud800", "\ufffd")])
def test_tool_call_id__stands_for_an_id_as_it_is_stored(text: str, cleaned: str) -> None:
    assert ToolCallId.standing_for(text) == cleaned


def test_tool_call_id__stands_for_no_empty_text() -> None:
    with pytest.raises(ValueError, match="tool call ID '' must have"):
        ToolCallId.standing_for("")


@pytest.mark.parametrize("text", ["a", "files/read all", "x" * 256, "\x1b", "\n."])
def test_usable_tool_name__takes_a_name(text: str) -> None:
    assert usable_tool_name(text) == text


@pytest.mark.parametrize("text", ["", " ", "\n", "x" * 257, "x" * 100_000])
def test_usable_tool_name__refuses_a_blank_or_long_name(text: str) -> None:
    message = f"tool name {text[:40]!r} must have 1 to 256 characters and not be blank"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        usable_tool_name(text)


@given(st.integers(min_value=1), CALL_NAMES, st.integers(min_value=1), CALL_NAMES)
def test_interrupt_id__differs_for_every_call_of_every_turn(
    turn: int, call: str, other_turn: int, other_call: str
) -> None:
    first = InterruptId.of(TurnId.of(turn), ToolCallId(call))
    second = InterruptId.of(TurnId.of(other_turn), ToolCallId(other_call))

    assert InterruptId(first) == first
    assert (first == second) == ((turn, call) == (other_turn, other_call))


@pytest.mark.parametrize("text", ["", "turn-1", "turn-1.", "turn-0.a", "turn-1.a/b", "a.turn-1"])
def test_interrupt_id__refuses_another_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form 'turn-<n>\.<tool call ID>'"):
        InterruptId(text)


def test_idempotency_key__names_session_turn_and_call() -> None:
    key = idempotency_key(SessionId("session-1"), TurnId("turn-2"), ToolCallId("a.b"))

    assert key == "session-1/turn-2/a.b"
