"""A server that asks for a token: every command carries the one that it is given, and tells which is missing."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen
from click.testing import CliRunner, Result

from dex_agents_dex.cli import main
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE, TOKEN_FILE_VARIABLE
from dex_agents_dex.testing import ChildProgram
from dex_agents_dex.testing.private_engine import PrivateEngine

from . import agent
from .conftest import ROOT
from .every_command import EVERY_COMMAND, SESSION, call_of

HOW_TO_GET_IN = (
    "; name the file of a token that it takes with --token-file or DEX_SERVER_TOKEN_FILE\n"
)


@frozen
class Guarded:
    """A server that lets one token in."""

    address: str
    right: Path
    wrong: Path

    def run(self, *arguments: str, token_file: Path | None = None) -> Result:
        option = () if token_file is None else ("--token-file", str(token_file))
        environment = {SERVER_ADDRESS_VARIABLE: self.address, TOKEN_FILE_VARIABLE: ""}
        return CliRunner().invoke(main, [*arguments, *option], env=environment)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    right, wrong = directory / "right", directory / "wrong"
    right.write_text("sesame\n")
    wrong.write_text("barley\n")
    engine = PrivateEngine(
        directory / "engine",
        log_path=directory / "engine.log",
        options=("--auth-token-file", str(right)),
    )
    asyncio.run(engine.start())
    yield Guarded(engine.server_address, right, wrong)
    engine.kill()


@pytest.fixture(scope="module")
def session(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A session that waits for a person, served by a Worker that has its token from the environment."""
    state_dir = tmp_path_factory.mktemp("state")
    worker = ChildProgram(
        "serve",
        ["dex_agents_dex.cli", "serve", agent.NAME],
        log_path=state_dir / "serve.log",
        cwd=ROOT,
        env={
            agent.STATE_DIR_VARIABLE: str(state_dir),
            SERVER_ADDRESS_VARIABLE: guarded.address,
            TOKEN_FILE_VARIABLE: str(guarded.right),
        },
    )
    try:
        asyncio.run(worker.wait_for_line("serving"))
        chatted = CliRunner().invoke(
            main,
            ["chat", agent.NAME, "--session", SESSION, "--no-worker"],
            input="note this\n",
            env={SERVER_ADDRESS_VARIABLE: guarded.address, TOKEN_FILE_VARIABLE: str(guarded.right)},
        )
        assert chatted.exit_code == 0, chatted.output
        yield SESSION
    finally:
        worker.kill()


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_command__without_the_right_token_says_so(guarded: Guarded, name: str) -> None:
    missing = guarded.run(*call_of(name))
    wrong = guarded.run(*call_of(name), token_file=guarded.wrong)
    unreadable = guarded.run(*call_of(name), token_file=guarded.wrong.with_name("nowhere"))

    told = f"error: the Dex server at {guarded.address} "
    refused = f"this engine needs a bearer token it knows{HOW_TO_GET_IN}"
    assert (missing.exit_code, missing.stderr) == (3, f"{told}asks for a token: {refused}")
    assert (wrong.exit_code, wrong.stderr) == (3, f"{told}does not take the token: {refused}")
    assert (
        unreadable.exit_code,
        unreadable.stderr.startswith("error: cannot use the token file"),
    ) == (*(3, True),)


def test_commands__with_the_right_token_do_their_work(guarded: Guarded, session: str) -> None:
    token = guarded.right
    shown = guarded.run("show", session, token_file=token)
    answer = next(
        line.strip() for line in shown.stdout.splitlines() if "dex-agents approve" in line
    )
    assert answer.endswith(f"--token-file {token}")

    approved = guarded.run(*shlex.split(answer)[1:])
    told = guarded.run("events", session, "--no-follow", "--json", token_file=token)
    listed = guarded.run("sessions", "--json", token_file=token)
    exported = guarded.run("export", session, token_file=token)
    closed = guarded.run("close", session, token_file=token)
    erased = guarded.run("erase", session, "--yes", token_file=token)

    every = (shown, approved, told, listed, exported, closed, erased)
    assert [each.exit_code for each in every] == [0] * 7, [each.output for each in every]
    assert json.loads(told.stdout.splitlines()[0])["type"] == "turn_started"
    assert [each["session_id"] for each in json.loads(listed.stdout)] == [session]
    assert json.loads(exported.stdout)["session_id"] == session
    assert (closed.stdout, erased.stdout) == ("closed\n", "erased\n")
