"""The text that a tool's result has for a model. Nothing is cut here: sizes are the session's business."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

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
    try:
        data = clean_json(to_jsonable_python(part.content, by_alias=True, bytes_mode="base64"))
    except PydanticSerializationError as error:
        raise ToolExecutionError(
            f"The tool {part.tool_name} ran, but its result has no JSON form: {error}"
        ) from error
    return replace(part, content=data).model_response_str(wrap_if_error=False)
