"""Commands that run until they are told to stop: the dev engine, and a Worker."""

from __future__ import annotations

import asyncio
import copy
import os
import signal

import click

from ..devengine.__main__ import main as engine_command
from ..flow import AgentSessionFlow
from ..runtime import DEFAULT_DATA_DIR, DEFAULT_WORKER_SLOTS, AgentRuntime
from .connecting import Place, at_a_place, server_at
from .loading import FLOW, NamedFlow
from .probing import while_it_answers
from .trouble import run


def _engine_command() -> click.Command:
    """The engine's own command, on the directory that every other command uses."""
    command = copy.copy(engine_command)
    command.name = "dev"
    command.params = [copy.copy(each) for each in engine_command.params]
    for each in command.params:
        if each.name == "data_dir":
            each.default = DEFAULT_DATA_DIR
    command.help = (
        "Run the dev engine: a Dex server for this machine.\n\n"
        "The other commands start one by themselves when they need it; with `dev` you see it,"
        " and choose its port.\n\n"
        "\b\nExample:\n  dex-agents dev --data-dir .dex-agents"
    )
    return command


dev = _engine_command()


@click.command()
@click.argument("flows", type=FLOW, metavar="MODULE:FLOW...", nargs=-1, required=True)
@click.option(
    "--slots",
    default=DEFAULT_WORKER_SLOTS,
    show_default=True,
    type=click.IntRange(min=2),
    help="How many Steps and RPCs may run at the same time; one slot is for RPCs alone.",
)
@at_a_place
def serve(flows: tuple[NamedFlow, ...], slots: int, place: Place) -> None:
    """Run the Steps of sessions until SIGTERM or Ctrl-C.

    What runs then may end before the program does. It ends, too, when its server stays away for
    longer than a restart takes: let whatever supervises it start it again.

    MODULE:FLOW names an AgentSessionFlow, or a function that builds one; the current directory
    comes first.

    \b
    Example:
      dex-agents serve my_agent:flow
    """
    run(_serve(tuple(each.flow for each in flows), slots, place))


async def _serve(flows: tuple[AgentSessionFlow, ...], slots: int, place: Place) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with (
        server_at(place, keep_engine=True) as server,
        AgentRuntime(
            *flows,
            server_address=server.address,
            token_file=place.token_file,
            worker_slots=slots,
        ),
    ):
        names = ", ".join(flow.get_flow_type() for flow in flows)
        click.echo(f"serving {names} on {server.address}, pid {os.getpid()}; Ctrl-C stops")
        await while_it_answers(server, stopping.wait())
        click.echo("stopping: what runs may end", err=True)
