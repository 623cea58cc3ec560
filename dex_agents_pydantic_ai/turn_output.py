"""The final result of a run as data, for whoever waits for the turn. What the model said is the answer itself."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, TextPart
from pydantic_core import to_jsonable_python

from .cleaning import clean_json


def output_of(result: object, said: Sequence[ModelMessage]) -> str | None:
    """``result`` as JSON text, its texts made storable; None when it has no JSON form, or was ``said`` as text.

    Fields stand under their aliases, so that the result's own type reads it back.
    """
    if result is None or (isinstance(result, str) and _is_answer(result, said)):
        return None
    try:
        return json.dumps(
            clean_json(to_jsonable_python(result)), ensure_ascii=False, allow_nan=False
        )
    except ValueError:
        return None


def _is_answer(result: str, said: Sequence[ModelMessage]) -> bool:
    """Whether the text ends the last response: what stands before a provider's own tools is not part of a result."""
    texts = [part.content for part in said[-1].parts if isinstance(part, TextPart)]
    return any("".join(texts[start:]) == result for start in range(len(texts)))
