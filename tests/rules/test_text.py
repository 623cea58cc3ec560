"""The one border for text."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dex_agents_model.text import (
    clean_text,
    digest,
    error_text,
    is_json_object,
    is_storable,
    keep_bytes,
    shorten,
    size_bytes,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))
STORABLE_TEXT = st.text(st.characters(codec="utf-8"))
LIMITS = st.integers(min_value=0, max_value=40)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\U0001f600", "\U0001f600"),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        ("\x01\x7f\ufeff\uffff", "\x01\x7f\ufeff\uffff"),
    ],
)  # fmt: skip
def test_clean_text__replaces_what_cannot_be_stored_and_nothing_else(
    text: str, cleaned: str
) -> None:
    assert clean_text(text) == cleaned


@given(ANY_TEXT)
def test_clean_text__is_idempotent(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


@given(ANY_TEXT)
def test_clean_text__makes_any_text_storable(text: str) -> None:
    cleaned = clean_text(text)

    assert (is_storable(cleaned), "\x00" in cleaned, len(cleaned)) == (True, False, len(text))


@given(ANY_TEXT)
def test_is_storable__tells_whether_utf_8_can_hold_the_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        assert not is_storable(text)
    else:
        assert is_storable(text)


@given(STORABLE_TEXT)
def test_size_bytes__is_the_length_in_utf_8(text: str) -> None:
    assert size_bytes(text) == len(text.encode("utf-8"))


@given(ANY_TEXT, LIMITS)
def test_keep_bytes__keeps_the_longest_start_that_fits(text: str, limit_bytes: int) -> None:
    starts = (text[:end] for end in range(len(text), -1, -1))

    assert keep_bytes(text, limit_bytes) == next(s for s in starts if size_bytes(s) <= limit_bytes)


@pytest.mark.parametrize(
    ("text", "limit_bytes", "kept"),
    [
        ("abc", 3, "abc"),
        ("abc", 2, "ab"),
        ("a\u20ac", 3, "a"),
        ("a\u20ac", 4, "a\u20ac"),
        ("\U0001f600", 3, ""),
        ("e\u0301", 1, "e"),
        ("abc", 0, ""),
        ("a\ud800b", 4, "a\ud800"),
        ("a\ud800b", 3, "a"),
    ],
)
def test_keep_bytes__splits_no_character(text: str, limit_bytes: int, kept: str) -> None:
    assert keep_bytes(text, limit_bytes) == kept


@given(STORABLE_TEXT, LIMITS)
def test_shorten__marks_what_it_cut_and_leaves_what_fits(text: str, limit_bytes: int) -> None:
    kept = keep_bytes(text, limit_bytes)
    marked = f"{kept}... [{size_bytes(text)} bytes in full]"

    assert shorten(text, limit_bytes) == (text if size_bytes(text) <= limit_bytes else marked)


@pytest.mark.parametrize(
    ("text", "limit_bytes", "shortened"),
    [
        ("x" * 20 + "... [5000 bytes in full]", 50, "x" * 20 + "... [5000 bytes in full]"),
        ("x" * 20 + "... [5000 bytes in full]", 10, "x" * 10 + "... [5000 bytes in full]"),
        ("x" * 20 + "... [5000 bytes in full]", 22, "x" * 20 + "... [5000 bytes in full]"),
        ("x" * 20 + "... [many bytes in full]", 10, "x" * 10 + "... [44 bytes in full]"),
        ("... [5000 bytes in full]" + "x" * 20, 10, "... [5000 ... [44 bytes in full]"),
    ],
)
def test_shorten__keeps_telling_the_first_size(text: str, limit_bytes: int, shortened: str) -> None:
    assert shorten(text, limit_bytes) == shortened


@given(STORABLE_TEXT, LIMITS, LIMITS)
def test_shorten__in_two_steps_is_shorten_in_one(text: str, first: int, second: int) -> None:
    assume(size_bytes(text) > first >= second)

    assert shorten(shorten(text, first), second) == shorten(text, second)


def test_digest__names_the_text_in_utf_8() -> None:
    assert digest("{}") == (
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("lost", "lost"),
        ("\x00\ud800", "\ufffd\ufffd"),
        ("x" * 8192, "x" * 8192),
        ("x" * 8193, "x" * 8192 + "... [8193 bytes in full]"),
    ],
)
def test_error_text__is_storable_and_short(text: str, kept: str) -> None:
    assert error_text(text) == kept


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('{"n": 1.5}', True),
        ('{"n": 1e999}', False),
        ('{"n": NaN}', False),
        ("[1.5]", False),
        ("{", False),
        ('{"n":' + "[" * 100_000, False),
    ],
    ids=["a number", "too large a number", "no number", "a list", "cut off", "too deep"],
)
def test_is_json_object__says_what_every_reader_takes_for_one(text: str, is_one: bool) -> None:
    assert is_json_object(text) is is_one
