"""The engines on which the stories are played: all stories at once, once for each engine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest
import pytest_asyncio
from attrs import frozen

from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack, ChildProgram

from .moment import Course
from .served import play
from .simulated import simulated
from .stories import STORIES
from .story import Story
from .witnessed import STATE_DIR_VARIABLE, build_flows

ROOT: Final = Path(__file__).resolve().parents[2]
WORKER: Final = "tests.conformance.worker"

Courses: TypeAlias = Mapping[Story, Course]


@frozen
class Engine:
    """A dev engine with these arguments, or the server that DEX_SERVER_ADDRESS names."""

    name: str
    arguments: tuple[str, ...] | None = ()
    is_redelivered: bool = False
    """Whether it hands out again, as the same attempt, what was lost before it was heard of."""


@frozen
class Played:
    """What became of each story on one engine, and in the simulator."""

    seen: Courses
    expected: Courses


_DEV_ENGINES: Final = (
    Engine("dev engine"),
    Engine("dev engine, no-worker spend", ("--no-worker", "spend")),
    Engine(
        "dev engine, redelivery same-attempt",
        ("--redelivery", "same-attempt"),
        is_redelivered=True,
    ),
)
_NAMED_SERVER: Final = Engine(
    f"the server of {SERVER_ADDRESS_VARIABLE}",
    None,
    is_redelivered=os.environ.get("CONFORMANCE_REDELIVERY") == "same-attempt",
)
_ENGINES: Final = (
    *_DEV_ENGINES,
    *((_NAMED_SERVER,) if os.environ.get(SERVER_ADDRESS_VARIABLE) else ()),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played_on(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Engine, Played]:
    """What became of the stories on every engine, all at the same time."""
    state_dirs = [tmp_path_factory.mktemp("conformance") for _ in _ENGINES]
    played = await asyncio.gather(*map(_play, _ENGINES, state_dirs))
    return dict(zip(_ENGINES, played, strict=True))


@pytest.fixture(params=_ENGINES, ids=lambda engine: engine.name)
def played(request: pytest.FixtureRequest, played_on: Mapping[Engine, Played]) -> Played:
    return played_on[request.param]


async def _play(engine: Engine, state_dir: Path) -> Played:
    expected = {story: simulated(story, is_redelivered=engine.is_redelivered) for story in STORIES}
    async with (
        _server(engine, state_dir) as address,
        AgentTestStack(
            state_dir,
            build_flows(state_dir),
            WORKER,
            worker_cwd=ROOT,
            worker_env={STATE_DIR_VARIABLE: str(state_dir)},
            server_address=address,
        ) as stack,
    ):
        return Played(await play(stack, state_dir, expected), expected)


@asynccontextmanager
async def _server(engine: Engine, state_dir: Path) -> AsyncIterator[str]:
    if engine.arguments is None:
        yield os.environ[SERVER_ADDRESS_VARIABLE]
        return
    program = ChildProgram(
        engine.name,
        [
            *("dex_agents_dex.devengine", "--until-stdin-closes", "--port", "0"),
            *("--data-dir", str(state_dir / "engine"), *engine.arguments),
        ],
        log_path=state_dir / "engine.log",
    )
    try:
        ready = json.loads(await program.wait_for_line('{"address"'))
        yield ready["address"]
    finally:
        program.kill()
