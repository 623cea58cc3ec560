"""From --server and --data-dir to a server that answers, and to the sessions on it."""

from __future__ import annotations

import asyncio
import functools
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import dex
from attrs import frozen

from ..client import AgentSessionClient
from ..devengine.data_directory import STORE_FILE_NAME
from ..dex_server import SERVER_ADDRESS_VARIABLE, TOKEN_FILE_VARIABLE, DexServer
from ..engine_process import shared_engine
from ..errors import clear_errors
from ..runtime import DEFAULT_DATA_DIR
from .desk import client_at, desk_at
from .names import TEXT
from .probing import ask_whether_it_answers, while_it_answers
from .trouble import NoServer

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

_CALL_ENDS_WITHIN: Final = timedelta(seconds=8)


@frozen
class Place:
    """Where a person's sessions are: on the server that is named, else on the engine of a directory."""

    server: str | None
    data_dir: Path
    token_file: Path | None = None

    @property
    def has_sessions(self) -> bool:
        """False when no engine has ever run on the directory, and no server is named."""
        return self.server is not None or (self.data_dir / STORE_FILE_NAME).exists()

    def command(self, name: str, *words: str, session: str | None = None) -> str:
        """A `dex-agents` command at this place about what ``words`` name, to be typed in a shell."""
        options = () if session is None else ("--session", session)
        if self.server is not None:
            options = (*options, "--server", self.server)
        elif self.data_dir != DEFAULT_DATA_DIR:
            options = (*options, "--data-dir", str(self.data_dir))
        if self.token_file is not None:
            options = (*options, "--token-file", str(self.token_file))
        if any(word.startswith("-") for word in words):  # it looks like an option
            return shlex.join(("dex-agents", name, *options, "--", *words))
        return shlex.join(("dex-agents", name, *words, *options))


def at_a_place(command: C) -> C:
    """Gives a command the options that say where, and their meaning as its argument ``place``."""

    @functools.wraps(command)
    def placed(
        *args: Any, server: str | None, data_dir: Path, token_file: Path | None, **others: Any
    ) -> Any:
        return command(*args, place=Place(server or None, data_dir, token_file), **others)

    data_dir = click.option(
        "--data-dir",
        default=DEFAULT_DATA_DIR,
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="The directory of the dev engine to use when no server is named.",
    )
    server = click.option(
        "--server",
        envvar=SERVER_ADDRESS_VARIABLE,
        show_envvar=True,
        type=TEXT,
        metavar="HOST:PORT",
        help="The Dex server.",
    )
    token_file = click.option(
        "--token-file",
        envvar=TOKEN_FILE_VARIABLE,
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="Holds the bearer token that the server asks for.",
    )
    placed_command: Any = server(token_file(data_dir(placed)))
    return placed_command  # type: ignore[no-any-return]  # click knows only that it is a callable


@asynccontextmanager
async def server_at(place: Place, *, keep_engine: bool = False) -> AsyncIterator[DexServer]:
    """The server at ``place``, which has answered. It starts the engine of a directory.

    Raises:
        EngineUnavailable: none answers, or what answers is no Dex server.
        AccessDenied: it lets nobody in with this token, or the token cannot be read.
    """
    async with AsyncExitStack() as stack:
        address = place.server
        if address is None:
            address = await stack.enter_async_context(
                shared_engine(place.data_dir, keep=keep_engine)
            )
        server = DexServer.at(address, place.token_file)
        await ask_whether_it_answers(server)
        yield server


@frozen
class FoundSession:
    """A session that exists, and how to ask it."""

    info: dex.FlowInfo
    sessions: AgentSessionClient
    server: DexServer


@asynccontextmanager
async def session_at(place: Place, session_id: str) -> AsyncIterator[FoundSession]:
    """One session, whatever its agent.

    Raises:
        EngineUnavailable: no server answers.
        SessionNotFound: there is no such session.
        NoServer: no engine has ever run on the directory.
    """
    async with existing_server_at(place) as server:
        info = await describe(server, session_id)
        async with desk_at(server, {info.flow_type: session_id}) as desk:
            yield FoundSession(info, desk.sessions(info.flow_type), server)


async def ask(
    place: Place, session_id: str, call: Callable[[AgentSessionClient], Awaitable[T]]
) -> T:
    """The answer of one session to one call.

    Raises:
        AgentSessionError: as the call, and as `session_at`.
        NoServer: there was no answer in 8 seconds.
    """
    async with session_at(place, session_id) as found, in_time(found.server):
        return await call(found.sessions)


async def ask_at_length(
    place: Place, session_id: str, call: Callable[[AgentSessionClient], Coroutine[Any, Any, T]]
) -> T:
    """As `ask`, for what may take long: it goes on while the server answers.

    Raises:
        AgentSessionError: as the call, and as `session_at`.
        NoServer: no engine has ever run on the directory.
    """
    async with session_at(place, session_id) as found:
        return await while_it_answers(found.server, call(found.sessions))


@asynccontextmanager
async def in_time(server: DexServer) -> AsyncIterator[None]:
    """Bounds what a command asks of a session.

    Raises:
        NoServer: it took longer than 8 seconds.
    """
    try:
        async with asyncio.timeout(_CALL_ENDS_WITHIN.total_seconds()):
            yield
    except TimeoutError:
        raise NoServer(
            f"the server at {server.address} gave no answer in {_CALL_ENDS_WITHIN.seconds} s; what"
            " was asked may have happened all the same: look with `dex-agents show`"
        ) from None


@asynccontextmanager
async def existing_server_at(place: Place) -> AsyncIterator[DexServer]:
    """As `server_at`, but it makes no new engine.

    Raises:
        NoServer: no engine has ever run on the directory.
    """
    if not place.has_sessions:
        raise NoServer(
            f"no dev engine has run on {place.data_dir} yet, so it has no sessions;"
            " name a server with --server, another directory with --data-dir,"
            " or begin with `dex-agents chat MODULE:FLOW`"
        )
    async with server_at(place) as server:
        yield server


async def describe(server: DexServer, session_id: str) -> dex.FlowInfo:
    """What the server knows of a session without asking it.

    Raises:
        SessionNotFound: there is no such session.
    """
    async with client_at(server) as client:
        with clear_errors(session_id, client.options):
            return await client.describe_flow(session_id)
