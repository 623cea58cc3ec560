"""Session IDs of any characters on a command line, and what a terminal must never obey."""

from __future__ import annotations

import json
import shlex

import pytest

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.testing import wait_for_agent_snapshot

from . import agent
from .conftest import Bench, dex_agents, wait_for_end

HOSTILE = "\x1b[2J\x9b31m\u202e\x07"
HARMLESS = "�[2J�31m��"


@pytest.fixture
def asking(served: Bench, session_id: str) -> str:
    """A session of an unusual name that waits for a person."""
    name = f'--session "it\'s" 100% ❄ 👩‍👩‍👧 \\n é;{session_id}'

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(name, "note this")
        await wait_for_agent_snapshot(
            sessions, name, lambda seen: seen.pending_interrupts, description="a question"
        )

    served.on_sessions(begin)
    return name


def test_session__of_an_unusual_name_is_reached_by_every_command(
    served: Bench, asking: str
) -> None:
    def run(command: str, *others: str) -> str:
        result = dex_agents(command, *served.server, "--", asking, *others)
        assert result.exit_code == 0, result.output
        return result.stdout

    (command,) = (line for line in run("show").splitlines() if "dex-agents approve" in line)
    program, *arguments = shlex.split(command)
    approved = dex_agents(*arguments)
    assert (program, approved.exit_code) == ("dex-agents", 0), approved.output
    served.on_sessions(lambda sessions: wait_for_end(sessions, asking))
    assert run("send", "wait here") == "queued\n"
    held = served.gate(asking)
    served.on_sessions(lambda _: held.wait_until_reached())
    assert run("steer", "meanwhile") == "taken\n"
    assert run("cancel") == "cancelling\n"
    served.on_sessions(lambda sessions: wait_for_end(sessions, asking, turn_count=3))
    assert "note done" in run("messages")
    assert run("queue") == ""
    assert json.loads(run("export"))["session_id"] == asking
    assert asking in served.run("sessions", "--limit", "1000").stdout
    assert run("close") == "closed\n"
    assert dex_agents("erase", "--yes", *served.server, "--", asking).stdout == "erased\n"


def test_session__of_an_unusual_name_is_gone_on_with_as_the_chat_says(
    served: Bench, asking: str
) -> None:
    arguments = ("chat", agent.NAME, "--no-worker", "--session", asking, *served.server)

    left = dex_agents(*arguments)

    last = left.stderr.splitlines()[-1]
    assert shlex.split(last.removeprefix("go on with: ")) == [
        *("dex-agents", "chat", agent.NAME, "--session", asking, *served.server)
    ]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a/b", "x" * 100_000], ids=repr)
def test_session__that_cannot_be_is_refused_in_one_line(served: Bench, name: str) -> None:
    refused = served.run("show", name)

    assert refused.exit_code == 2
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("Error: Invalid value for 'SESSION': session ID ")
    assert len(last) < 500
    assert last.isprintable()


def test_terminal__obeys_nothing_that_was_said(served: Bench, session_id: str) -> None:
    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, f"note {HOSTILE}")
        await wait_for_agent_snapshot(
            sessions, session_id, lambda seen: seen.pending_interrupts, description="a question"
        )

    served.on_sessions(begin)
    asked = served.run("show", session_id).stdout
    words = ("--by", HOSTILE, "--reason", f"so {HOSTILE}")
    answered = served.run("approve", session_id, "turn-1.call-1", *words)
    assert answered.exit_code == 0, answered.output
    served.on_sessions(lambda sessions: wait_for_end(sessions, session_id))
    told = served.run("show", session_id).stdout
    listed = served.run("messages", session_id).stdout
    refused = served.run("reject", session_id, f"turn-1.{HOSTILE}").stderr

    for text in (asked, answered.stdout, told, listed, refused):
        assert [sign for sign in text if sign in set(HOSTILE) - {*"[2J31m"}] == []
    assert told.count(HARMLESS) > 1
