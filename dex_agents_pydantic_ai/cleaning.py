"""The border for text between Pydantic AI and a session. Nothing else about a message may change here.

What a provider gave as opaque (signatures, IDs of its own) stays as it is. Only a lone surrogate
is replaced in it too: no bytes stand for one, so no provider could have meant it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_core import from_json, to_json

from dex_agents_model.text import clean_text, is_json_object, parse_json

# Fields of a message or of one of its parts.
_OPAQUE: Final = frozenset({"id", "provider_details", "provider_response_id", "signature"})
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_response(response: ModelResponse) -> ModelResponse:
    """``response`` with its texts, tool names, call IDs and arguments made storable."""
    return replace(response, parts=[_clean_part(part) for part in response.parts])


def clean_json(value: Any) -> Any:
    """JSON data with every text in it made storable, keys included."""
    match value:
        case str():
            return clean_text(value)
        case Mapping():
            return {
                clean_text(key) if isinstance(key, str) else key: clean_json(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [clean_json(item) for item in value]
        case _:
            return value


def clean_arguments(arguments: str) -> str:
    """JSON text of a tool call's arguments, storable also behind its escapes; no JSON stays no JSON.

    What only a lenient reader takes for JSON, such as NaN, becomes a text in it, which is no
    arguments: Pydantic AI is lenient here, and the providers that get the call back are not.
    """
    arguments = clean_text(arguments)
    try:
        data = parse_json(arguments)
    except ValueError:
        return json.dumps(arguments, ensure_ascii=False) if _is_read(arguments) else arguments
    if "\\u" not in arguments:
        return arguments
    cleaned = clean_json(data)
    return arguments if cleaned == data else json.dumps(cleaned, ensure_ascii=False)


def _is_read(arguments: str) -> bool:
    try:
        from_json(arguments)
    except ValueError:
        return False
    return True


def _clean_arguments(arguments: str | Mapping[str, Any] | None) -> Any:
    """Of a call as it came, in either form."""
    if arguments is None:
        return None
    if isinstance(arguments, str):
        return clean_arguments(arguments)
    cleaned = clean_json(arguments)
    text = to_json(cleaned).decode()
    return cleaned if is_json_object(text) else clean_arguments(text)


def clean_dumped_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that Pydantic AI turned into JSON data, made storable."""
    return [_clean_fields(message) for message in messages]


def _clean_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _clean_field(name, value) for name, value in fields.items()}


def _clean_field(name: str, value: Any) -> Any:
    if name in _OPAQUE:
        return _clean_opaque(value)
    if name == "parts":
        return [_clean_fields(part) for part in value]
    return clean_json(value)


def _clean_part(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content=clean_text(part.content))
    if isinstance(part, ToolCallPart):
        cleaned: dict[str, Any] = {
            "tool_name": clean_text(part.tool_name),
            "tool_call_id": clean_text(part.tool_call_id),
            "args": _clean_arguments(part.args),
        }
        return replace(part, **cleaned)
    return part


def _clean_opaque(value: Any) -> Any:
    match value:
        case str():
            return _LONE_SURROGATE.sub(_REPLACEMENT, value)
        case Mapping():
            return {_clean_opaque(key): _clean_opaque(item) for key, item in value.items()}
        case list():
            return [_clean_opaque(item) for item in value]
        case _:
            return value
