"""Text that arrives in pieces, as rows of a terminal; and what a terminal must not obey."""

from __future__ import annotations

import pytest

from dex_agents_dex.cli.chat.rows import Rows
from dex_agents_dex.cli.words import in_one_line, safe, told_queued
from dex_agents_model import AgentUserMessage


@pytest.mark.parametrize(
    "pieces", [["one two three"], list("one two three"), ["one t", "wo three"]]
)
def test_rows__are_the_same_however_the_text_arrives(pieces: list[str]) -> None:
    rows = Rows()
    full = [row for piece in pieces for row in rows.take(piece, 8)]

    assert (full, rows.end()) == (["one two"], "three")


def test_rows__end_where_the_text_breaks_its_lines() -> None:
    rows = Rows()

    assert rows.take("a\n\nb\nc", 8) == ["a", "", "b"]
    assert (rows.end(), rows.open_row) == ("c", "")


def test_rows__cut_a_word_that_is_wider_than_a_row() -> None:
    rows = Rows()

    assert (rows.take("abcdefgh", 3), rows.end()) == (["abc", "def"], "gh")


def test_rows__count_wide_characters_as_two_cells() -> None:
    rows = Rows()

    assert (rows.take("日本語テ", 4), rows.end()) == (["日本"], "語テ")


def test_safe__leaves_nothing_that_a_terminal_obeys() -> None:
    assert (
        safe("a\x1b[2Jb\x07\r\nc\td")
        == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}\nc\td"
    )


def test_in_one_line__cuts_with_an_ellipsis_and_keeps_to_its_limit() -> None:
    assert in_one_line("a\n  b\x00") == "a b\N{REPLACEMENT CHARACTER}"
    assert in_one_line("x" * 9, 5) == "xxxx…"


@pytest.mark.parametrize(
    ("text", "beside", "told"),
    [
        ("later\nthen", None, "later then"),
        ("look", "é", "look [2 bytes beside the text]"),
        ("", "<photo>", "[7 bytes beside the text]"),
    ],
)
def test_told_queued__marks_what_lies_beside_the_text(
    text: str, beside: str | None, told: str
) -> None:
    assert told_queued(AgentUserMessage(text, "m-1", beside)) == told
