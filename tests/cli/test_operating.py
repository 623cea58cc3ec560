"""Commands about whole sessions."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dex_agents_dex.cli import main
from dex_agents_dex.operations import EVENTS_LEFT, HISTORY_LEFT

from .conftest import Bench


@pytest.fixture
def another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers as one that has no call to forget a Flow."""
    monkeypatch.setattr("dex_agents_dex.operations.FORGET_FLOW_METHOD", "/no.such.Service/Call")


def test_export__prints_the_session_also_when_it_is_closed(served: Bench, ended: str) -> None:
    opened = json.loads(served.run("export", ended).stdout)
    assert served.run("close", ended, "--reason", "done with it").stdout == "closed\n"
    closed = json.loads(served.run("export", ended).stdout)

    assert [message["text"] for message in opened["messages"]] == ["hello", "You said hello."]
    assert closed == {**opened, "status": "canceled"}


def test_close__of_what_is_closed_has_an_exit_code_of_its_own(served: Bench, ended: str) -> None:
    assert served.read("close", ended) == {"closed": True}
    assert served.run("close", ended).exit_code == 4
    assert served.run("send", ended, "hello").exit_code == 4


def test_erase__is_done_once_it_is_meant(served: Bench, ended: str) -> None:
    arguments = ("erase", ended, *served.server)
    no = CliRunner().invoke(main, arguments, input="n\n")
    shown = served.run("show", ended)
    yes = CliRunner().invoke(main, arguments, input="y\n")

    assert (no.exit_code, shown.exit_code) == (1, 0)
    assert f"erase session {ended!r} for good?" in no.stderr
    assert (yes.exit_code, yes.stdout) == (0, "erased\n")
    assert served.run("show", ended).exit_code == 4


def test_erase__as_json_says_that_nothing_is_left(served: Bench, ended: str) -> None:
    assert served.read("erase", ended, "--yes") == {"erased": True, "left": []}


@pytest.mark.usefixtures("another_server")
def test_erase__says_what_another_server_keeps(served: Bench, ended: str) -> None:
    result = served.run("erase", ended, "--yes")

    told = "error: erased as far as it can be; the server still has:"
    assert result.exit_code == 1
    assert result.stderr == f"{told}\n  - {HISTORY_LEFT}\n  - {EVENTS_LEFT}\n"
    assert served.read("show", ended)["snapshot"]["messages"] == []
