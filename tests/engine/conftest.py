"""Fixtures: an engine on a fresh directory, a way to put Flows on it, and one to talk to it by hand."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex import Flow
from dex.dexpb import dex_pb2_grpc
from hypothesis import settings

from dex_agents_dex.devengine import DevEngine
from tests.engine.rig import EngineRig, rig
from tests.engine.wire_worker import WireWorker, wire_worker

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


@pytest.fixture
async def channel(engine: DevEngine) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(engine.address) as opened:
        yield opened


@pytest.fixture
def flows(channel: grpc.aio.Channel) -> Any:
    """The engine's FlowService, call by call."""
    return dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code


@pytest.fixture
def worker(channel: grpc.aio.Channel) -> WireWorker:
    return wire_worker(channel, "worker-a")
