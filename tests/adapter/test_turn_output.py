"""A final result becomes JSON text that its own type reads back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from pydantic_ai.messages import ModelResponse, TextPart

from dex_agents_pydantic_ai.turn_output import output_of

SAID = [ModelResponse([TextPart("It is "), TextPart("text")])]


class Verdict(BaseModel):
    """A model with an alias and a nested list."""

    order_id: str = Field(alias="orderId")
    at: datetime
    marks: list[int]


@dataclass
class Point:
    """Data that is no model."""

    x: int


@pytest.mark.parametrize(
    "result",
    [
        Verdict(orderId="7", at=datetime(2030, 1, 1, tzinfo=UTC), marks=[1, 2]),
        Point(3),
        {"a": [1, None, 1.5]},
        [Point(1), Point(2)],
        7,
        False,
    ],
    ids=["a model", "a dataclass", "a dict", "a list", "a number", "a truth value"],
)
def test_output_of__is_read_back_by_the_type_of_the_result(result: Any) -> None:
    output = output_of(result, SAID)

    assert output is not None
    shape: Any = list[Point] if isinstance(result, list) else type(result)
    assert TypeAdapter(shape).validate_python(json.loads(output)) == result


@pytest.mark.parametrize(
    "result",
    ["text", "It is text", None, object(), float("nan"), b"\xff"],
    ids=[
        "text",
        "text in two parts",
        "nothing",
        "an object",
        "no number",
        "bytes that are no text",
    ],
)
def test_output_of__is_none_for_what_was_said_or_has_no_json_form(result: object) -> None:
    assert output_of(result, SAID) is None


@pytest.mark.parametrize("result", ["TEXT", "It is ", ""])
def test_output_of__is_data_for_text_that_the_model_did_not_say(result: str) -> None:
    assert output_of(result, SAID) == f'"{result}"'


def test_output_of__makes_every_text_storable() -> None:
    assert output_of({"said": ["\ud800", "a\x00b", "\U0001f600"]}, SAID) == (
        '{"said": ["\ufffd", "a\ufffdb", "\U0001f600"]}'
    )
