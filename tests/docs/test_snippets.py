"""Every program and every command that a page shows does what it says there."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import dex
import pytest
from dex import AsyncClient, ClientOptions, WorkerTarget
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models.test import TestModel

from dex_agents_dex import AgentRuntime, AgentSessionFlow, ToolEffect, ToolPolicy
from dex_agents_dex.cli import main
from dex_agents_dex.devengine import DevEngine
from dex_agents_pydantic_ai import pydantic_ai_session_flow, user_content
from tests.binding.scripted_runner import ScriptedRunner

from .pages import ROOT

GENERATED: Final = {"docs/api.md", "docs/transitions.md"}
PAGES: Final = sorted(
    {path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]}
    - GENERATED
)
RUN_ELSEWHERE: Final = {
    ("README.md", 0): "test_readme",
    ("README.md", 1): "test_model_page",
    ("README.md", 2): "test_model_page",
    ("docs/model.md", 0): "test_model_page",
    ("docs/model.md", 1): "test_model_page",
    ("docs/model.md", 2): "test_model_page",
    ("docs/own_runner.md", 1): "test_model_page",
    ("docs/testing.md", 0): "test_testing_page",
    ("docs/testing.md", 1): "test_testing_page",
    ("docs/testing.md", 2): "test_testing_page",
}
RUN_HERE: Final = {
    ("docs/devengine.md", 0),
    ("docs/operating.md", 0),
    ("docs/own_runner.md", 0),
    ("docs/pydantic_ai.md", 0),
    ("docs/pydantic_ai.md", 1),
    ("docs/tracing.md", 0),
}


def programs(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(page: str, number: int, **given: object) -> dict[str, Any]:
    """What a program has made, with ``given`` for what the page takes as known."""
    found = dict[str, Any](given)
    exec(compile(programs(page)[number], page, "exec"), found)
    return found


async def run_in_a_loop(page: str, number: int, **given: object) -> None:
    """The same for a fragment that awaits."""
    fragment = f"async def fragment():\n{textwrap.indent(programs(page)[number], '    ')}"
    found = dict[str, Any](given)
    exec(compile(fragment, page, "exec"), found)
    await found["fragment"]()


def test_programs__are_all_run() -> None:
    shown = {(page, number) for page in PAGES for number, _ in enumerate(programs(page))}

    assert shown == RUN_HERE | RUN_ELSEWHERE.keys()


def agent() -> Agent:
    made = Agent(TestModel(call_tools=[]))

    @made.tool_plain
    def find_order(order_id: str) -> str:
        return order_id

    @made.tool_plain
    def refund_order(order_id: str) -> str:
        return order_id

    return made


async def test_pydantic_ai__makes_a_flow_and_takes_a_photo(tmp_path: Path) -> None:
    known = {
        "pydantic_ai_session_flow": pydantic_ai_session_flow,
        "ToolPolicy": ToolPolicy,
        "ToolEffect": ToolEffect,
    }
    flow: AgentSessionFlow = run("docs/pydantic_ai.md", 0, agent=agent(), **known)["flow"]

    async with (
        DevEngine(tmp_path) as engine,
        AgentRuntime(flow, server_address=engine.address) as runtime,
    ):
        sessions = runtime.sessions("OrderAgent")
        await sessions.start_session("order-7")
        await run_in_a_loop(
            *("docs/pydantic_ai.md", 1),
            sessions=sessions,
            data=b"a photo",
            BinaryContent=BinaryContent,
            user_content=user_content,
        )
        outcome = await sessions.run_turn("order-7", "And this?")

    assert outcome.turn_id == "turn-2"


async def test_devengine__serves_a_client(tmp_path: Path) -> None:
    cache = dex.open_blob_cache(dex.BlobCacheConfig(str(tmp_path / "cache"), 1 << 20))
    await run_in_a_loop(
        *("docs/devengine.md", 0),
        DevEngine=DevEngine,
        AsyncClient=AsyncClient,
        ClientOptions=ClientOptions,
        WorkerTarget=WorkerTarget,
        data_dir=tmp_path / "data",
        registry=dex.Registry([], allow_async_handlers=True),
        cache=cache,
    )
    cache.close()


def test_tracing__makes_a_flow(tmp_path: Path) -> None:
    flow: AgentSessionFlow = run("docs/tracing.md", 0, runner=ScriptedRunner(tmp_path))["flow"]

    assert flow.get_flow_type() == "Orders"


async def test_operating__answers_a_readiness_probe(tmp_path: Path) -> None:
    is_ready = run("docs/operating.md", 0)["is_ready"]
    flow = AgentSessionFlow(ScriptedRunner(tmp_path), flow_type="Ready")
    async with (
        DevEngine(tmp_path) as engine,
        AgentRuntime(flow, server_address=engine.address) as runtime,
    ):
        ready = await is_ready(runtime)
        await engine.stop()
        status, said = await is_ready(runtime)

    assert ready == (200, "ready")
    assert (status, said.startswith("no Dex server answers at ")) == (503, True)


def test_own_runner__is_the_one_of_the_example() -> None:
    runner, _ = programs("docs/own_runner.md")

    assert runner in (ROOT / "examples" / "own_runner.py").read_text(encoding="utf-8")


# --- commands --------------------------------------------------------------------------------


def commands(page: str) -> Iterator[str]:
    """Every call of `dex-agents`, in a block of its own or in a line of text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:text)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(dex-agents [^`]+)`", text)
    for line in [*lines, *inline]:
        found = re.match(r"(?:\$ |.*\| )?(dex-agents(?: .*)?)$", line.partition("  #")[0].rstrip())
        if found:
            yield found[1]


@pytest.mark.parametrize("page", PAGES)
def test_commands__are_known_with_their_options(page: str) -> None:
    for line in commands(page):
        _, *words = shlex.split(line)
        if not words or words[0].startswith("-"):
            continue
        command = main.commands[words[0]]
        options = {name for each in command.params for name in each.opts} | {"--help"}
        used = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
        assert used <= options, line


def test_commands__of_the_pages_are_found() -> None:
    found = {shlex.split(line)[1] for page in PAGES for line in commands(page) if " " in line}

    assert {"chat", "sessions", "close", "export", "erase", "serve"} <= found
