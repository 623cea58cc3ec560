"""`python -m dex_agents_dex.devengine`: the dev engine as a process of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import re
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from attrs import frozen

from dex_agents_dex.devengine import DevEngine, EngineNotStarted, EngineOptions, StoreUnusable
from dex_agents_dex.devengine.options import Durability, NoWorker, Redelivery

_UNAVAILABLE: Final = 2
_STORE_FAILED: Final = 3
_GRACE: Final = timedelta(seconds=2)
_LONGEST_RETENTION: Final = timedelta(days=36_500)
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


class Retention(click.ParamType[timedelta | None]):
    """`30d`, `12h`, `90m`, or `forever`."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | None:
        if value is None or isinstance(value, timedelta):
            return value
        if value == "forever":
            return None
        found = re.fullmatch(r"(\d{1,9})([mhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is not like 30d, 12h, 90m or forever", param, ctx)
        retention = timedelta(**{_UNITS[found[2]]: int(found[1])})
        if retention > _LONGEST_RETENTION:
            self.fail(f"{value!r} is more than {_LONGEST_RETENTION.days} days", param, ctx)
        return retention


class JsonLines(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)


@frozen
class _Output:
    """How the process speaks."""

    is_scripted: bool
    prints_metrics: bool
    is_open: bool  # to every local process


@frozen
class _Lifetime:
    """When the process stops without being told by a signal."""

    until_stdin_closes: bool
    until_unused: bool


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
    "--auth-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Bearer tokens, one a line; without it every local process is let in.",
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
    "--retention", default="30d", type=Retention(), help="How long a closed Flow can be read."
)
@click.option("--log-format", default="text", type=click.Choice(["text", "json"]))
@click.option("--metrics", is_flag=True, help="Print counters on stderr at the end.")
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
    auth_token_file: Path | None,
    no_worker: NoWorker,
    redelivery: Redelivery,
    durability: Durability,
    retention: timedelta | None,
    log_format: str,
    metrics: bool,
    until_stdin_closes: bool,
    until_unused: bool,
) -> None:
    """Run a Dex server for this machine, for development and tests."""
    _require_local(host, is_allowed=allow_remote, is_open=auth_token_file is None)
    _log_to_stderr(log_format)
    options = EngineOptions(
        no_worker=no_worker,
        redelivery=redelivery,
        durability=durability,
        retention=retention,
        auth_token_file=auth_token_file,
    )
    engine = DevEngine(data_dir, host=host, port=port, options=options)
    output = _Output(port == 0, metrics, auth_token_file is None)
    try:
        code = asyncio.run(_serve(engine, output, _Lifetime(until_stdin_closes, until_unused)))
    except (EngineNotStarted, StoreUnusable, OSError) as error:
        click.echo(f"error: {error}", err=True)
        code = _UNAVAILABLE
    sys.exit(code)


async def _serve(engine: DevEngine, output: _Output, lifetime: _Lifetime) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if lifetime.until_stdin_closes:
        try:
            loop.add_reader(sys.stdin, _stop_at_end_of_input, loop, stop)
        except (OSError, ValueError) as error:
            raise EngineNotStarted(
                "--until-stdin-closes needs a pipe or a terminal as standard input"
            ) from error
    await engine.start()
    print(_readiness(engine, output), flush=True)
    failed = asyncio.create_task(engine.failed())
    reasons = {failed, asyncio.create_task(stop.wait())}
    if lifetime.until_unused:
        reasons.add(asyncio.create_task(engine.until_unused()))
    await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    has_failed = failed.done()
    for reason in reasons:
        reason.cancel()
    await asyncio.gather(*reasons, return_exceptions=True)
    if has_failed:
        click.echo("error: the store failed; see the message above", err=True)
        os._exit(_STORE_FAILED)  # nothing may be answered any more, and nothing can be written
    counts = engine.counts()
    await engine.stop(_GRACE)
    if output.prints_metrics:
        click.echo(json.dumps(counts), err=True)
    return 0


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin)
        stop.set()


def _readiness(engine: DevEngine, output: _Output) -> str:
    if output.is_scripted:
        auth = "none" if output.is_open else "bearer"
        return json.dumps({"address": engine.address, "pid": os.getpid(), "auth": auth})
    access = (
        "every local process may use it (no --auth-token-file)"
        if output.is_open
        else "bearer tokens are asked for"
    )
    return f"dev engine ready on {engine.address}; {access}"


def _require_local(host: str, *, is_allowed: bool, is_open: bool) -> None:
    if _is_loopback(host):
        return
    if not is_allowed:
        raise click.UsageError(
            f"{host} can be reached from other machines, and nothing here is encrypted; "
            "add --allow-remote if you mean it"
        )
    danger = (
        f"everybody who reaches {host} controls this engine"
        if is_open
        else f"tokens and data travel to {host} in clear text"
    )
    click.echo(f"warning: {danger}", err=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _log_to_stderr(log_format: str) -> None:
    line = logging.StreamHandler()
    line.setFormatter(
        JsonLines()
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[line])
    logging.getLogger("dex_agents_dex.devengine").setLevel(logging.INFO)


if __name__ == "__main__":
    main()
