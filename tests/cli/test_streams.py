"""The command line where its input and output are not in UTF-8, closed or full."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from dex_agents_dex import AgentSessionClient

from . import agent
from .conftest import ROOT, Bench, wait_for_end


def _run(bench: Bench, encoding: str, *arguments: str, typed: bytes = b"") -> tuple[int, bytes]:
    """The exit code, and what was printed on stdout."""
    ended = subprocess.run(
        [sys.executable, "-m", "dex_agents_dex.cli", *arguments, *bench.server],
        input=typed,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout


def test_output__that_is_not_in_utf_8_has_a_mark_for_what_it_cannot_show(
    served: Bench, session_id: str
) -> None:
    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, "日本 café")
        await wait_for_end(sessions, session_id)

    served.on_sessions(begin)
    code, shown = _run(served, "latin-1", "messages", session_id)
    assert (code, shown) == (0, b"> ?? caf\xe9\n? You said ?? caf\xe9.\n")

    code, told = _run(served, "ascii", "messages", session_id, "--json")
    texts = [json.loads(line)["text"] for line in told.splitlines()]
    assert (code, texts) == (0, ["日本 café", "You said 日本 café."])


def test_chat__takes_lines_that_are_not_in_utf_8(served: Bench, session_id: str) -> None:
    chat = ("chat", agent.NAME, "--session", session_id)
    code, printed = _run(served, "utf-8:strict", *chat, typed=b"caf\xe9\n")

    assert (code, "● You said caf\N{REPLACEMENT CHARACTER}." in printed.decode()) == (0, True)


@pytest.mark.parametrize(
    ("command", "redirected", "expected"),
    [
        ("sessions --json", ">&-", (0, "")),
        (f"chat {agent.NAME} --session nobody-types", "<&-", (0, "go on with: ")),
        ("sessions", ">/dev/full", (1, "error: nothing more can be written: No space left on ")),
    ],
)
def test_command__does_without_what_is_closed_and_says_what_is_full(
    served: Bench, ended: str, command: str, redirected: str, expected: tuple[int, str]
) -> None:
    program = (sys.executable, "-m", "dex_agents_dex.cli", *command.split(), *served.server)
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", *program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )

    code, told = expected
    assert (ran.returncode, ran.stderr[: len(told)]) == (code, told)
    assert ran.stderr.count("\n") == bool(told)
