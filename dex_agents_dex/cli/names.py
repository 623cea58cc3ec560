"""Names on the command line: what has not the form of one is refused before a server is asked."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from typing import Any, Final

import click

from dex_agents_model.ids import InterruptId, SessionId, TurnId


def json_object(text: str) -> str:
    """``text``, which is the JSON of an object.

    Raises:
        ValueError: it is not; the message says why.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"that is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"that is no JSON object but {json.dumps(data):.40}")
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


SESSION: Final = _Name("session", SessionId)
QUESTION: Final = _Name("question", InterruptId)
TURN: Final = _Name("turn", TurnId)
JSON_OBJECT: Final = _Name("json object", json_object)
