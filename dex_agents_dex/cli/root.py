"""The command `dex-agents` itself: its subcommands, and what holds for all of them."""

from __future__ import annotations

import logging
import os
import sys
from errno import ENOSPC
from io import TextIOWrapper
from typing import Any

import click
from click.shell_completion import get_completion_class

from .answering import approve, cancel, reject, send, steer, withdraw
from .chat import chat
from .listing import events, messages, queue, sessions
from .operating import close, erase, export
from .questions import question
from .serving import dev, serve
from .showing import show
from .trouble import EXIT_CODES, Trouble

_PROGRAM = "dex-agents"


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno != ENOSPC:
                raise
            raise Trouble(f"nothing more can be written: {error.strerror}") from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(package_name="dex-agent-sessions")
@click.option("-v", "--verbose", is_flag=True, help="Show what the Dex SDK logs, on stderr.")
def main(verbose: bool) -> None:
    """Agent sessions that survive anything: talk to them, watch them, answer them.

    A command works on the Dex server that --server or DEX_SERVER_ADDRESS names. Without one it uses
    the dev engine of a directory, .dex-agents, and starts it when it does not run.

    \b
    Examples:
      dex-agents chat my_agent:flow          talk to an agent
      dex-agents sessions                    what sessions there are
      dex-agents show order-7                one session, with its Steps
      dex-agents question order-7            what a person is asked, whole
      dex-agents approve order-7 turn-1.c-2  let that tool call run
      dex-agents serve my_agent:flow         run the agent's Steps until SIGTERM
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may know fewer characters than an agent
            stream.reconfigure(errors="replace")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the C core writes to stderr by itself
    if verbose:
        logging.basicConfig(level=logging.DEBUG)
    else:
        logging.getLogger().addHandler(logging.NullHandler())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
    Examples:
      eval "$(dex-agents completion bash)"      in ~/.bashrc
      eval "$(dex-agents completion zsh)"       in ~/.zshrc
      dex-agents completion fish > ~/.config/fish/completions/dex-agents.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(main, {}, _PROGRAM, "_DEX_AGENTS_COMPLETE").source())


for _command in (
    *(dev, chat, serve),
    *(sessions, show, messages, events, queue, question),
    *(send, steer, approve, reject, cancel, withdraw),
    *(export, close, erase),
    completion,
):
    main.add_command(_command)
