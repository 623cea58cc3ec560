"""docs/model.md draws the table as it is, and what pages say of the model alone, their programs do."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, get_args

import pytest

from dex_agents_model.decision import EndBranch, StepDecision
from dex_agents_model.steps import Step
from dex_agents_model.table import RPCS, SPECS
from tests.rules.cases import Reacts, all_cases

from .pages import ROOT, blocks

PAGE = "docs/model.md"
ALONE = "## Test session logic without an engine"
STEPS = {step.__name__ for step in get_args(Step)}
Edge = tuple[str, str]


def drawing() -> str:
    (drawn,) = blocks(PAGE, "mermaid", below="## A session")
    return drawn


def drawn_edges(arrow: str) -> set[Edge]:
    found = re.findall(rf"(\w+)(?:\(\[.*\]\))? {arrow}(?:\|.*\|)? (\w+)$", drawing(), re.MULTILINE)
    return {(source, target) for source, target in found}


def test_drawing__has_every_edge_of_the_table_and_no_other() -> None:
    edges = {
        (entry.step.__name__, target.__name__)
        for entry in SPECS
        for row in entry.rows
        for target in row.to
        if target.__name__ in STEPS
    }
    edges |= {(rpc.request.__name__, step.__name__) for rpc in RPCS for step in rpc.to}
    routes = {
        (entry.step.__name__, entry.limits.on_exhausted.__name__)
        for entry in SPECS
        if entry.limits.on_exhausted is not None
    }

    assert drawn_edges("-->") == edges
    assert drawn_edges(r"-\.->") == routes


def test_drawing__shows_each_step_in_the_status_in_which_it_works() -> None:
    drawn = {
        step: {status}
        for status, steps in re.findall(r"subgraph (\w+)\n(.*?)\n    end", drawing(), re.DOTALL)
        for step in steps.split()
    }
    worked: dict[str, set[str]] = {}
    for case in all_cases():
        state = case.view.state
        if isinstance(case, Reacts) and state is not None and not ends_a_branch(case.then):
            worked.setdefault(type(case.step).__name__, set()).add(state.status)

    assert worked.pop("RecordTurnCancelled") == {"running_model", "running_tools"}
    assert {step: worked[step] for step in worked.keys() & drawn.keys()} == drawn
    assert STEPS - drawn.keys() == {"StartAgentSession", "RecordTurnCancelled"}


def ends_a_branch(reaction: object) -> bool:
    """Whether a Step only ends its branch: some find that they have nothing to do in any status."""
    return isinstance(reaction, StepDecision) and reaction == StepDecision(next=EndBranch())


@pytest.mark.parametrize(
    ("page", "heading"), [(PAGE, ALONE), ("README.md", f"#{ALONE}")], ids=["model", "readme"]
)
def test_rule_tests__run_as_they_are_shown(page: str, heading: str) -> None:
    (program,) = blocks(page, "python", below=heading)
    shown: dict[str, Any] = {}
    exec(compile(program, page, "exec"), shown)

    tests = [claim for name, claim in shown.items() if name.startswith("test_")]
    assert tests != []
    for claim in tests:
        claim()


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        (PAGE, "## Simulate a session"),
        (PAGE, "## A promise of your own"),
        ("docs/own_runner.md", "## Every crash, without an engine"),
        ("README.md", "### Simulate sessions"),
    ],
    ids=["session", "promise", "runner", "readme"],
)
def test_simulation__prints_what_the_page_says(page: str, heading: str) -> None:
    (program,) = blocks(page, "python", below=heading)
    (printed,) = blocks(page, "text", below=heading)

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == (printed, "")
