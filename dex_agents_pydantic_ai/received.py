"""What a model answered, as a session can go on with it. Nothing is refused here: that is left to validation."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final

from pydantic_ai.messages import ModelResponse, ModelResponsePart, ToolCallPart

from .cleaning import clean_response

_CUT_OFF: Final = frozenset({"length", "content_filter", "error"})
"""Reasons for which an answer has ended before the model had ended it."""
_UNFINISHED: Final = "{"
"""Arguments that nobody can take for whole ones."""


def as_received(response: ModelResponse, taken: set[str]) -> ModelResponse:
    """``response`` storable, each call in it with an ID of its own, and none that was cut off taken for whole.

    ``taken`` are the IDs of the calls of the turn, to which those of the response are added.
    """
    cleaned = clean_response(response)
    was_cut_off = cleaned.finish_reason in _CUT_OFF
    parts = [_received(part, taken, was_cut_off) for part in cleaned.parts]
    return replace(cleaned, parts=parts)


def _received(part: ModelResponsePart, taken: set[str], was_cut_off: bool) -> ModelResponsePart:
    if not isinstance(part, ToolCallPart):
        return part
    own = replace(part, tool_call_id=_own_id(part.tool_call_id, taken))
    taken.add(own.tool_call_id)
    # No arguments mean an empty object, but not where they may have been about to come.
    may_be_unfinished = was_cut_off and part.args in (None, "")
    return replace(own, args=_UNFINISHED) if may_be_unfinished else own


def _own_id(call_id: str, taken: set[str]) -> str:
    """Some models count their calls anew in each answer, or give two calls one ID."""
    if call_id not in taken:
        return call_id
    return next(
        candidate for number in count(2) if (candidate := f"{call_id}-{number}") not in taken
    )
