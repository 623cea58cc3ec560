"""The final result of a run as data, for whoever waits for the turn. Text needs none: it is the answer itself."""

from __future__ import annotations

import json

from pydantic_core import to_jsonable_python

from .cleaning import clean_json


def output_of(result: object) -> str | None:
    """``result`` as JSON text, its texts made storable; None when it is text, or has no JSON form.

    Fields stand under their aliases, so that the result's own type reads it back.
    """
    if result is None or isinstance(result, str):
        return None
    try:
        return json.dumps(
            clean_json(to_jsonable_python(result)), ensure_ascii=False, allow_nan=False
        )
    except ValueError:
        return None
