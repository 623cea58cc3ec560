"""The text that a tool's result has for a model and for people. Nothing is cut here: sizes are the session's business.

What a result holds beside text is kept by `tool_content`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    FileUrl,
    TextContent,
    ToolReturnPart,
    UploadedFile,
    UserContent,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from dex_agents_model import ToolExecutionError
from dex_agents_model.text import clean_text, shorten

from .cleaning import clean_json
from .errors import describe

_SHOWN_ADDRESS_BYTES: Final = 512


def output_text(part: ToolReturnPart) -> str:
    """The result as the model would see it, or its error without the wrapping of one; a line for each file.

    Raises:
        ToolExecutionError: the tool returned something that has no JSON form.
    """
    text = clean_text(_text(part))
    files = [content_label(file) for file in part.files]
    return "\n".join([text, *files] if text else files)


def content_label(item: UserContent) -> str:
    """What stands for an image, a document or another piece of a message where only text can."""
    match item:
        case str() | TextContent():
            return clean_text(item if isinstance(item, str) else item.content)
        case BinaryContent():
            return f"[{item.media_type}, {len(item.data)} bytes]"
        case FileUrl():
            return f"[{item.kind} {shorten(clean_text(item.url), _SHOWN_ADDRESS_BYTES)}]"
        case UploadedFile():
            return f"[file {clean_text(item.file_id)} at {item.provider_name}]"
        case CachePoint():
            return ""


def _text(part: ToolReturnPart) -> str:
    try:
        return part.model_response_str(wrap_if_error=False)
    except (ValueError, RecursionError):
        pass  # a lone surrogate inside the data, or no JSON at all: the next lines tell
    data = [item for item in part.content_items() if item not in part.files]
    try:
        cleaned = [json_of(item) for item in data]
    except PydanticSerializationError as error:
        raise ToolExecutionError(
            f"The tool {part.tool_name} ran, but its result has no JSON form: {error}"
        ) from error
    is_one_value = len(cleaned) == 1 and (part.files or not isinstance(part.content, list))
    content = cleaned[0] if is_one_value else cleaned
    return replace(part, content=content).model_response_str(wrap_if_error=False)


def json_of(value: object) -> Any:
    """``value`` as storable JSON data, as a model is shown it.

    Raises:
        PydanticSerializationError: it has no JSON form.
    """
    try:
        # Cleaned twice: plain data before it is turned into JSON, and what objects held behind it.
        return clean_json(to_jsonable_python(clean_json(value), by_alias=True, bytes_mode="base64"))
    except PydanticSerializationError:
        raise
    except (ValueError, RecursionError) as error:  # bytes in a model that are no text, a circle
        raise PydanticSerializationError(describe(error)) from error
