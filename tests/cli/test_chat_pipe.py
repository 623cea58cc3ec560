"""`chat` with lines from a pipe: each is read when the session can take it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from . import agent
from .conftest import ROOT, Bench


def _chat(bench: Bench, session_id: str, lines: str) -> tuple[int, str]:
    """The exit code, and what was printed on stdout."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "dex_agents_dex.cli", "chat", agent.NAME),
            *("--session", session_id, *bench.server),
        ],
        input=lines,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout


def test_chat__takes_messages_and_answers_from_a_pipe(served: Bench, session_id: str) -> None:
    code, printed = _chat(served, session_id, "note this\ny\nhello\n")

    assert (code, [line.rstrip() for line in printed.splitlines()]) == (
        0,
        [
            "> note this",
            "● I will note.",
            '? note {"text": "note this"}',
            "  y: run it   n [WHY]: do not   e: edit its arguments",
            "  approved",
            "  ✓ note  note done: note this",
            "● note done: note this.",
            "",
            "> hello",
            "● You said hello.",
            "",
        ],
    )


def test_chat__leaves_a_question_open_when_the_pipe_ends(served: Bench, session_id: str) -> None:
    code, _ = _chat(served, session_id, "note this\n")

    assert code == 0
    (asked,) = served.read("show", session_id)["snapshot"]["pending_interrupts"]
    assert asked["tool_name"] == "note"


def test_chat__does_not_begin_in_a_session_that_is_closed(served: Bench, ended: str) -> None:
    assert served.run("close", ended).exit_code == 0

    assert _chat(served, ended, "hello\n") == (4, "")


def test_chat__ends_when_its_session_is_closed_in_the_middle_of_a_turn(
    served: Bench, session_id: str
) -> None:
    with ThreadPoolExecutor() as threads:
        chat = threads.submit(_chat, served, session_id, "wait here\n")
        asyncio.run(served.gate(session_id).wait_until_reached())
        assert served.run("close", session_id).exit_code == 0
        code, _ = chat.result()

    assert code == 4
