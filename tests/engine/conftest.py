"""Fixtures: an engine on a fresh directory, and a way to put Flows on it."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from dex import Flow
from hypothesis import settings

from dex_agents_dex.devengine import DevEngine
from tests.engine.rig import EngineRig, rig

# `--hypothesis-profile=fuzz` looks for as long as one likes to wait.
settings.register_profile("fuzz", max_examples=5000, deadline=None, stateful_step_count=60)

OnEngine = Callable[..., AbstractAsyncContextManager[EngineRig]]


@pytest.fixture(autouse=True)
def _quiet_sdk() -> None:
    """The SDK logs every handler that fails, which is what many scenarios are about."""
    logging.getLogger("dex").setLevel(logging.CRITICAL)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[DevEngine]:
    async with DevEngine(tmp_path / "data") as running:
        yield running


@pytest.fixture
def on_engine(engine: DevEngine, tmp_path: Path) -> OnEngine:
    """`async with on_engine(flow, ...) as rig`: a client and a Worker for these Flows."""

    def make(*flows: Flow[Any], has_worker: bool = True) -> AbstractAsyncContextManager[EngineRig]:
        return rig(engine, tmp_path, *flows, has_worker=has_worker)

    return make
