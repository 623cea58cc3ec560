"""The command line where text is not in UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
