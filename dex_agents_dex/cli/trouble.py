"""What a person is told when something went wrong, and the exit code for a script. Nothing is found out here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar, Final, TypeVar

import click
import dex

from dex_agents_model.errors import StateCorrupt

from ..dex_server import TOKEN_FILE_VARIABLE
from ..errors import (
    AccessDenied,
    AgentSessionError,
    EngineUnavailable,
    SessionAlreadyExists,
    SessionNotFound,
    TurnNotFound,
    WorkerFailed,
)
from .words import safe

T = TypeVar("T")

EXIT_CODES: Final = """\b
Exit codes:
  0  done
  1  the session refused it, or it failed
  2  the command was not understood
  3  no Dex server could be used
  4  there is no such session, question or message"""


class Trouble(click.ClickException):
    """One line for a person; 1 for a script."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(safe(f"error: {self.format_message()}"), err=True)


class NotUnderstood(Trouble):
    """What was typed names nothing that there is on this machine."""

    exit_code: ClassVar[int] = 2


class NoServer(Trouble):
    """No Dex server could be used."""

    exit_code: ClassVar[int] = 3


class NotThere(Trouble):
    """There is no such session, question or message."""

    exit_code: ClassVar[int] = 4


def run(work: Coroutine[Any, Any, T]) -> T:
    """``work`` to its end, with what went wrong told in one line.

    Raises:
        Trouble: what the product's own errors and a refusing server come to.
    """
    try:
        return asyncio.run(work)
    except (AgentSessionError, dex.DexServiceError) as error:
        raise told(error) from error
    except StateCorrupt as error:  # such as a record of a later release
        raise Trouble(str(error)) from error


def told(error: AgentSessionError | dex.DexServiceError) -> Trouble:
    """``error`` as a person is told it, with what to do next."""
    match error:
        case EngineUnavailable():
            return NoServer(f"{error}; {WHAT_TO_DO}")
        case AccessDenied():
            return NoServer(f"{error}; {HOW_TO_GET_IN}")
        case SessionNotFound() | TurnNotFound():
            return NotThere(f"{error}; `dex-agents sessions` lists those that there are")
        case SessionAlreadyExists() | WorkerFailed() | AgentSessionError():
            return Trouble(str(error))
        case _:
            return Trouble(f"the Dex server refused: {error.detail or error.code.name}")


WHAT_TO_DO: Final = "name a server with --server HOST:PORT, or run one with `dex-agents dev`"
HOW_TO_GET_IN: Final = (
    f"name the file of a token that it takes with --token-file or {TOKEN_FILE_VARIABLE}"
)
