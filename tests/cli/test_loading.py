"""MODULE:FLOW: what it may name, and what a person is told when it names something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.cli.loading import FlowNotLoaded, load_flow

from . import agent
from .conftest import dex_agents

MODULE = """
from tests.cli.agent import build_flow

class Agents:
    flow = build_flow()

flow = build_flow()
limit = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current directory that nobody installed."""
    name = f"agents_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return name


@pytest.mark.parametrize("path", ["flow", "build_flow", "Agents.flow"])
def test_load_flow__takes_a_flow_or_what_builds_one(module: str, path: str) -> None:
    flow = load_flow(f"{module}:{path}")

    assert isinstance(flow, AgentSessionFlow)
    assert flow.get_flow_type() == agent.FLOW_TYPE


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my_agent", "'my_agent' is not of the form MODULE:FLOW, as in my_agent:flow"),
        ("..:flow", "'..:flow' is not of the form MODULE:FLOW, as in my_agent:flow"),
        (":flow", "':flow' is not of the form MODULE:FLOW, as in my_agent:flow"),
        ("no.such:flow", "there is no module 'no.such' here or among those installed"),
        ("json:flow", "the module 'json' has no 'flow'"),
        ("sys:path", "sys:path is 'list', not an AgentSessionFlow nor what builds one"),
    ],
)
def test_load_flow__says_in_one_line_what_is_wrong(name: str, told: str) -> None:
    with pytest.raises(FlowNotLoaded) as raised:
        load_flow(name)

    assert str(raised.value) == told


def test_serve__refuses_what_names_no_flow_with_exit_code_2() -> None:
    result = dex_agents("serve", "json:flow")

    assert (result.exit_code, result.stderr) == (2, "error: the module 'json' has no 'flow'\n")
