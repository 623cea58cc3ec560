"""What a model answered is made fit for a session before anything else sees it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import FinishReason, ModelResponse, TextPart, ToolCallPart

from dex_agents_pydantic_ai.received import as_received


def received(*parts: Any, because: FinishReason | None = None) -> list[Any]:
    return list(as_received(ModelResponse(list(parts), finish_reason=because), set()).parts)


@pytest.mark.parametrize("because", ["length", "content_filter", "error"])
@pytest.mark.parametrize("args", ["", None])
def test_as_received__takes_no_call_that_was_cut_off_for_one_without_arguments(
    because: FinishReason, args: str | None
) -> None:
    whole = ToolCallPart("find", '{"x":1}', "a")

    assert received(whole, ToolCallPart("wipe", args, "b"), because=because) == [
        whole,
        ToolCallPart("wipe", "{", "b"),
    ]


@pytest.mark.parametrize(
    ("args", "because"),
    [
        ("", "tool_call"),
        (None, "stop"),
        ("", None),
        ({}, "length"),
        ("{}", "length"),
        ('{"x":1', "length"),
    ],
)
def test_as_received__leaves_other_arguments_alone(args: Any, because: FinishReason | None) -> None:
    call = ToolCallPart("find", args, "a")

    assert received(call, because=because) == [call]


def test_as_received__gives_each_call_an_id_of_its_own() -> None:
    taken = {"a", "b-2"}
    parts = [ToolCallPart("find", "{}", name) for name in ("a", "b", "b", "c")]

    response = as_received(ModelResponse([TextPart("hm"), *parts]), taken)

    assert [call.tool_call_id for call in response.tool_calls] == ["a-2", "b", "b-3", "c"]
    assert taken == {"a", "a-2", "b", "b-2", "b-3", "c"}


def test_as_received__compares_ids_as_they_are_stored() -> None:
    calls = received(ToolCallPart("find", "{}", "a\x00"), ToolCallPart("find", "{}", "a\ud800"))

    assert [call.tool_call_id for call in calls] == ["a\ufffd", "a\ufffd-2"]
