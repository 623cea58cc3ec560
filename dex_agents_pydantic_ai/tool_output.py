"""The text that a tool's result has for a model. Nothing is cut here: sizes are the session's business."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import ToolReturnPart
from pydantic_core import PydanticSerializationError, to_jsonable_python

from dex_agents_model import ToolExecutionError
from dex_agents_model.text import clean_text

from .cleaning import clean_json

_FILES_LEFT_OUT: Final = "[{count} of the tool's files cannot be passed on]"


def output_text(part: ToolReturnPart) -> str:
    """The result as the model would see it, or its error without the wrapping of one.

    Raises:
        ToolExecutionError: the tool returned something that has no JSON form.
    """
    text = clean_text(_text(part))
    if not part.files:
        return text
    left_out = _FILES_LEFT_OUT.format(count=len(part.files))
    return f"{text}\n{left_out}" if text else left_out


def _text(part: ToolReturnPart) -> str:
    try:
        return part.model_response_str(wrap_if_error=False)
    except PydanticSerializationError:
        pass  # a lone surrogate inside the data, or no JSON at all: the next lines tell
    data = [item for item in part.content_items() if item not in part.files]
    try:
        cleaned = [_json_of(item) for item in data]
    except PydanticSerializationError as error:
        raise ToolExecutionError(
            f"The tool {part.tool_name} ran, but its result has no JSON form: {error}"
        ) from error
    is_one_value = len(cleaned) == 1 and (part.files or not isinstance(part.content, list))
    content = cleaned[0] if is_one_value else cleaned
    return replace(part, content=content).model_response_str(wrap_if_error=False)


def _json_of(value: object) -> Any:
    """Cleaned twice: plain data before it is turned into JSON, and what objects held behind it."""
    return clean_json(to_jsonable_python(clean_json(value), by_alias=True, bytes_mode="base64"))
