"""What holds for every command."""

from __future__ import annotations

import click
import pytest

from dex_agents_dex.cli import main

from .conftest import dex_agents

COMMANDS = sorted(main.commands)


def test_main__has_these_commands() -> None:
    assert COMMANDS == [
        "approve",
        "cancel",
        "chat",
        "close",
        "completion",
        "dev",
        "erase",
        "events",
        "export",
        "messages",
        "question",
        "queue",
        "reject",
        "send",
        "serve",
        "sessions",
        "show",
        "steer",
        "withdraw",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_help__has_an_example(name: str) -> None:
    result = dex_agents(name, "--help")

    assert result.exit_code == 0
    assert f"dex-agents {name}" in result.stdout.partition("Example")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_help__says_in_one_short_line_what_the_command_does(name: str) -> None:
    assert not main.commands[name].get_short_help_str(60).endswith("...")


def test_help__tells_the_exit_codes() -> None:
    assert "3  no Dex server could be used" in dex_agents("--help").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion__prints_a_script_for_the_shell(shell: str) -> None:
    assert "_DEX_AGENTS_COMPLETE" in dex_agents("completion", shell).stdout


def test_dev__takes_the_options_of_the_engine_and_the_directory_of_the_other_commands() -> None:
    options = {
        option.name: option.default
        for option in main.commands["dev"].params
        if isinstance(option, click.Option)
    }

    assert str(options["data_dir"]) == ".dex-agents"
    assert {"port", "no_worker", "redelivery", "durability"} <= set(options)
