"""A server that asks for a bearer token lets in who has it in a file, and tells anybody else what is missing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from attrs import frozen

from dex_agents_dex import AccessDenied, AgentRuntime
from dex_agents_dex.devengine import DevEngine, EngineOptions
from dex_agents_dex.dex_server import TOKEN_FILE_VARIABLE
from dex_agents_dex.testing import read_step_history

from .flows import build_flows
from .script import Reply, script

REFUSED = "this engine needs a bearer token it knows"


@frozen
class Guarded:
    """An engine that knows one token, and the directory of files."""

    engine: DevEngine
    directory: Path

    def token_file(self, text: str) -> Path:
        path = self.directory / "token"
        path.write_text(text)
        return path

    def runtime(self, token_file: Path | None, *, serve: bool = False) -> AgentRuntime:
        flows = build_flows(self.directory)
        return AgentRuntime(
            *flows, server_address=self.engine.address, token_file=token_file, serve=serve
        )


@pytest_asyncio.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    known = tmp_path / "known-tokens"
    known.write_text("the right one\nanother\n")
    options = EngineOptions(auth_token_file=known)
    async with DevEngine(tmp_path / "data", options=options) as engine:
        yield Guarded(engine, tmp_path)


async def test_token__in_a_file_lets_client_worker_and_history_in(guarded: Guarded) -> None:
    token_file = guarded.token_file("the right one\n")
    async with guarded.runtime(token_file, serve=True) as runtime:
        sessions = runtime.sessions("Scripted")
        await sessions.start_session("s")
        outcome = await sessions.run_turn("s", script(Reply(text="an answer")))
        history = await read_step_history(runtime.server_address, "s", token_file=token_file)

    assert outcome.answer == "an answer"
    assert "RunModel" in [entry.step_type for entry in history]


async def test_token__is_taken_from_the_file_that_the_environment_names(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(guarded.token_file("another")))

    async with guarded.runtime(None) as runtime:
        assert await runtime.sessions("Scripted").start_session("s")


@pytest.mark.parametrize("serve", [True, False])
async def test_token__that_is_wrong_or_missing_is_told_so(guarded: Guarded, serve: bool) -> None:
    told = f"the Dex server at {guarded.engine.address} "
    with pytest.raises(AccessDenied, match=f"^{told}does not take the token: {REFUSED}$"):
        async with guarded.runtime(guarded.token_file("a wrong one"), serve=serve):
            pass
    with pytest.raises(AccessDenied, match=f"^{told}asks for a token: {REFUSED}$"):
        async with guarded.runtime(None, serve=serve):
            pass


async def test_token_file__that_cannot_be_used_is_named(guarded: Guarded, tmp_path: Path) -> None:
    nowhere, empty = tmp_path / "nowhere", guarded.token_file(" \n")
    told = {
        nowhere: f"cannot use the token file {nowhere}: No such file or directory",
        empty: f"cannot use the token file {empty}: credential file {empty} is empty",
    }
    for path, message in told.items():
        with pytest.raises(AccessDenied, match=f"^{re.escape(message)}$"):
            async with guarded.runtime(path):
                pass


async def test_call__is_refused_once_the_token_is_not_known_any_more(guarded: Guarded) -> None:
    async with guarded.runtime(guarded.token_file("the right one")) as runtime:
        sessions = runtime.sessions("Scripted")
        await sessions.start_session("s")
        (guarded.directory / "known-tokens").write_text("a new one\n")

        with pytest.raises(AccessDenied, match="does not take the token"):
            await sessions.send_user_message("s", "hello")
        health = await runtime.health()

    assert (health.is_ready, health.server_answers) == (False, False)
    assert health.trouble is not None
    assert "does not take the token" in health.trouble
