"""`python -m dex_agents_dex.devengine`: the dev engine as a process of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from dex_agents_dex.devengine import DevEngine, EngineOptions, EngineUnavailable, StoreUnusable
from dex_agents_dex.devengine.options import Durability, NoWorker, Redelivery

_UNAVAILABLE: Final = 2
_STORE_FAILED: Final = 3
_GRACE: Final = timedelta(seconds=2)


@click.command(context_settings={"show_default": True})
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8801, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option(
    "--data-dir",
    default=Path(".dex-devengine"),
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the engine keeps its state; made if absent, readable by you alone.",
)
@click.option(
    "--allow-remote", is_flag=True, help="Listen on an address that other machines can reach."
)
@click.option(
    "--no-worker",
    default="pending",
    type=click.Choice(["pending", "spend"]),
    help="A task that no Worker takes: wait for ever, or cost an attempt after 10 s.",
)
@click.option(
    "--redelivery",
    default="spend",
    type=click.Choice(["spend", "same-attempt"]),
    help="A task whose Worker vanished before any frame: cost an attempt, or hand it out again.",
)
@click.option(
    "--durability",
    default="strict",
    type=click.Choice(["strict", "process-crash-safe"]),
    help="Whether what was acknowledged was fsynced.",
)
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    help="Stop when whoever holds the other end of standard input is gone.",
)
@click.option(
    "--until-unused",
    is_flag=True,
    help="Stop when no program that shares the data directory is left.",
)
def main(
    host: str,
    port: int,
    data_dir: Path,
    allow_remote: bool,
    no_worker: NoWorker,
    redelivery: Redelivery,
    durability: Durability,
    until_stdin_closes: bool,
    until_unused: bool,
) -> None:
    """Run a Dex server for this machine, for development and tests."""
    if not _is_loopback(host):
        if not allow_remote:
            raise click.UsageError(
                f"{host} can be reached from other machines, and this engine asks nobody who "
                "they are; add --allow-remote if you mean it"
            )
        click.echo(f"warning: everybody who reaches {host} controls this engine", err=True)
    options = EngineOptions(no_worker=no_worker, redelivery=redelivery, durability=durability)
    engine = DevEngine(data_dir, host=host, port=port, options=options)
    try:
        code = asyncio.run(
            _serve(
                engine,
                is_scripted=port == 0,
                until_stdin_closes=until_stdin_closes,
                until_unused=until_unused,
            )
        )
    except (EngineUnavailable, StoreUnusable, OSError) as error:
        click.echo(f"error: {error}", err=True)
        code = _UNAVAILABLE
    sys.exit(code)


async def _serve(
    engine: DevEngine, *, is_scripted: bool, until_stdin_closes: bool, until_unused: bool
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin, _stop_at_end_of_input, loop, stop)
    await engine.start()
    if is_scripted:
        print(json.dumps({"address": engine.address, "pid": os.getpid()}), flush=True)
    else:
        print(f"dev engine ready on {engine.address}", flush=True)
    failed = asyncio.create_task(engine.failed())
    reasons = {failed, asyncio.create_task(stop.wait())}
    if until_unused:
        reasons.add(asyncio.create_task(engine.until_unused()))
    await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    has_failed = failed.done()
    for reason in reasons:
        reason.cancel()
    await asyncio.gather(*reasons, return_exceptions=True)
    if has_failed:
        click.echo("error: the store failed; see the message above", err=True)
        os._exit(_STORE_FAILED)  # nothing may be answered any more, and nothing can be written
    await engine.stop(_GRACE)
    return 0


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin)
        stop.set()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    main()
