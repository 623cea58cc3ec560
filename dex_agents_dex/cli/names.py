"""Names on the command line: what has not the form of one is refused before a server is asked."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from typing import Any, Final

import click

from dex_agents_model.ids import InterruptId, SessionId, TurnId
from dex_agents_model.requests import MAX_EDITED_ARGUMENT_BYTES
from dex_agents_model.text import MAX_ID_BYTES, is_storable, parse_json, size_bytes


def json_object(text: str) -> str:
    """``text``, which is the JSON of an object that a session takes as arguments.

    Raises:
        ValueError: it is not; the message says why.
    """
    size = size_bytes(utf_8(text))
    if size > MAX_EDITED_ARGUMENT_BYTES:
        raise ValueError(f"that takes {size:,} bytes; at most {MAX_EDITED_ARGUMENT_BYTES:,} do")
    try:
        data = parse_json(text)
    except ValueError as error:
        raise ValueError(f"that is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"that is no JSON object but {json.dumps(data):.40}")
    return text


def utf_8(text: str) -> str:
    """``text``, which can be sent.

    Raises:
        ValueError: it came in another encoding.
    """
    if not is_storable(text):
        raise ValueError("that is no text in UTF-8")
    return text


def message_id(text: str) -> str:
    """``text``, which may be the ID of a message.

    Raises:
        ValueError: no message has such an ID.
    """
    if not is_storable(text) or size_bytes(text) > MAX_ID_BYTES:
        raise ValueError(f"no message has such an ID: at most {MAX_ID_BYTES:,} bytes of UTF-8")
    return text


def this_person() -> str:
    """Who answers, when nobody says."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "somebody at the command line"


class _Name(click.ParamType[str]):
    def __init__(self, name: str, parse: Callable[[str], str]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


TEXT: Final = _Name("text", utf_8)
SESSION: Final = _Name("session", SessionId)
QUESTION: Final = _Name("question", InterruptId)
TURN: Final = _Name("turn", TurnId)
MESSAGE_ID: Final = _Name("message ID", message_id)
JSON_OBJECT: Final = _Name("json object", json_object)
