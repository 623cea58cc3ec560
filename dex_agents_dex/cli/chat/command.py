"""The command `chat`: which session, on which server, with which Worker, on what screen."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from uuid import uuid4

import click
import dex
from rich.text import Text

from ...client import AgentSessionClient
from ...dex_server import DexServer
from ...errors import AgentSessionError, SessionNotFound
from ...flow import AgentSessionFlow
from ...runtime import AgentRuntime
from ..connecting import Place, at_a_place, describe, server_at
from ..desk import answering_at
from ..loading import FLOW, NamedFlow
from ..names import SESSION, this_person
from ..probing import while_it_answers
from ..trouble import Trouble, run, told
from ..words import QUIET
from .board import Board
from .conversation import COMMANDS, Conversation
from .screen import PipeScreen, Screen
from .terminal import Terminal, others_scroll_by

_ID_CHARACTERS = 8


@click.command()
@click.argument("flow", type=FLOW, metavar="MODULE:FLOW")
@click.option("--session", type=SESSION, help="Go on with this session, or name a new one so.")
@click.option(
    "--no-worker", is_flag=True, help="Run no Step here: other Workers serve (`dex-agents serve`)."
)
@at_a_place
@click.pass_context
def chat(
    context: click.Context, flow: NamedFlow, session: str | None, no_worker: bool, place: Place
) -> None:
    """Talk to an agent in this terminal.

    You see it work, answer its questions, and may speak to it while it runs.

    Ctrl-C cancels the turn that runs; twice leaves. The session lives on, also when this program is
    killed: `--session` goes on with it. Lines may come from a pipe, too.

    \b
    Examples:
      dex-agents chat my_agent:flow
      dex-agents chat my_agent:flow --session order-7
      echo "How is order 7?" | dex-agents chat my_agent:flow
    """
    session_id = session or f"chat-{uuid4().hex[:_ID_CHARACTERS]}"
    trouble = None
    with suppress(KeyboardInterrupt):
        trouble = run(_chat(flow.flow, session_id, place, no_worker=no_worker))
    if trouble is not None:
        trouble.show()
    again = place.command("chat", flow.name, session=session_id)
    click.echo(f"go on with: {again}", err=True)
    if trouble is not None:
        context.exit(trouble.exit_code)


async def _chat(
    flow: AgentSessionFlow, session_id: str, place: Place, *, no_worker: bool
) -> Trouble | None:
    """What cut the conversation off; None when the person left.

    Raises:
        AgentSessionError: there was none, for the session could not be opened.
    """
    async with server_at(place, keep_engine=True) as server:
        is_new = await _is_new(server, session_id, flow)
        async with _sessions(flow, server, place, no_worker=no_worker) as sessions:
            if is_new:
                await sessions.start_session(session_id)
            with _screen() as screen:
                board = Board(session_id)
                try:
                    await _converse(sessions, board, flow, screen, server)
                except AgentSessionError as error:
                    return told(error)
            if board.running is not None and not no_worker:
                click.echo("a Step may still run and is waited for; Ctrl-C cuts it off", err=True)
    return None


async def _is_new(server: DexServer, session_id: str, flow: AgentSessionFlow) -> bool:
    """Whether the session is still to be started.

    Raises:
        Trouble: it is of another Flow type.
        SessionNotFound: it is closed.
    """
    try:
        info = await describe(server, session_id)
    except SessionNotFound:
        return True
    if info.flow_type != flow.get_flow_type():
        raise Trouble(
            f"session {session_id!r} is of the Flow type {info.flow_type!r},"
            f" and the Flow that is named here is {flow.get_flow_type()!r}"
        )
    if info.status is not dex.FlowStatus.RUNNING:
        raise SessionNotFound(
            f"session {session_id!r} is closed: it can be read, as with `dex-agents show`"
        )
    return False


@asynccontextmanager
async def _sessions(
    flow: AgentSessionFlow, server: DexServer, place: Place, *, no_worker: bool
) -> AsyncIterator[AgentSessionClient]:
    async with AsyncExitStack() as stack:
        serving = AgentRuntime(
            flow, server_address=server.address, token_file=place.token_file, serve=not no_worker
        )
        runtime = await stack.enter_async_context(serving)
        if no_worker:
            await stack.enter_async_context(answering_at(server, [flow.get_flow_type()]))
        yield runtime.sessions(flow)


@contextmanager
def _screen() -> Iterator[Screen]:
    ends = (sys.stdin, sys.stdout)  # None where it was closed before
    if all(end is not None and end.isatty() for end in ends):
        with others_scroll_by():
            yield Terminal(COMMANDS)
    else:
        yield PipeScreen()


async def _converse(
    sessions: AgentSessionClient,
    board: Board,
    flow: AgentSessionFlow,
    screen: Screen,
    server: DexServer,
) -> None:
    conversation = Conversation(sessions, board, screen, person=this_person())
    screen.on_interrupt = conversation.interrupt
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, conversation.interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, conversation.leave)
    if screen.is_terminal:
        hint = "/help lists commands, Ctrl-C cancels a turn, twice leaves"
        screen.line(
            Text.assemble((flow.get_flow_type(), "bold"), (f"  {board.session_id}  {hint}", QUIET))
        )
        screen.line()
    try:
        await while_it_answers(server, conversation.run())
    finally:
        await screen.written()
        loop.remove_signal_handler(signal.SIGINT)  # from here on Ctrl-C ends the program at once
