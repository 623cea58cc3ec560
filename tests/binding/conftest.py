"""What the tests of the binding share: one server with one Worker for all that kill nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import dex
import pytest
import pytest_asyncio
from attrs import field, frozen

from dex_agents_dex import AgentRuntime
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack
from dex_agents_dex.testing.plugin import (
    OpenAgentTestStack,
    file_gate,
    invocation_log,
    open_agent_test_stack,
)

from .conversation import Conversation
from .flows import IMPATIENT, SCRIPTED, STATE_DIR_VARIABLE, build_flows
from .laboratory import Laboratory

__all__ = ["file_gate", "invocation_log", "open_agent_test_stack"]

ROOT = Path(__file__).resolve().parents[2]
WORKER = "tests.binding.worker"


@frozen
class Served:
    """A server that has a Worker, and the directory of its scripts' gates and log."""

    server_address: str
    state_dir: Path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    state_dir = tmp_path_factory.mktemp("served")
    async with AgentTestStack(
        state_dir,
        build_flows(state_dir),
        WORKER,
        worker_cwd=ROOT,
        worker_env={STATE_DIR_VARIABLE: str(state_dir)},
    ) as stack:
        await stack.start_worker()
        yield Served(stack.server_address, state_dir)


@pytest.fixture
def new_session_id(request: pytest.FixtureRequest) -> Callable[[], str]:
    """IDs that no other test uses, nor an earlier run on the same server."""
    return lambda: f"{request.node.originalname[:80]}-{uuid4().hex[:8]}"


@pytest_asyncio.fixture
async def runtime(served: Served) -> AsyncIterator[AgentRuntime]:
    """A client of the shared server."""
    flows = build_flows(served.state_dir)
    async with AgentRuntime(*flows, server_address=served.server_address, serve=False) as opened:
        yield opened


@pytest.fixture
def new_conversation(
    runtime: AgentRuntime, served: Served, new_session_id: Callable[[], str]
) -> Callable[[str], Conversation]:
    """Opens conversations of a Flow type on the shared server."""

    def open_conversation(flow_type: str) -> Conversation:
        return Conversation(runtime.sessions(flow_type), new_session_id(), served.state_dir)

    return open_conversation


@pytest.fixture
def conversation(new_conversation: Callable[[str], Conversation]) -> Conversation:
    """A session of the Flow ``Scripted`` on the shared server, not started yet."""
    return new_conversation(SCRIPTED)


@pytest.fixture
def impatient_conversation(new_conversation: Callable[[str], Conversation]) -> Conversation:
    """A session whose approvals expire after a second, not started yet."""
    return new_conversation(IMPATIENT)


@pytest.fixture
def laboratory(served: Served, tmp_path: Path) -> Iterator[Laboratory]:
    """Runs single Steps on the shared server."""
    cache = dex.open_blob_cache(dex.BlobCacheConfig(str(tmp_path), 64 * 1024 * 1024))
    yield Laboratory(served.server_address, cache)
    cache.close()


@pytest.fixture
def another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers as one that has no call to forget a Flow."""
    monkeypatch.setattr("dex_agents_dex.operations.FORGET_FLOW_METHOD", "/no.such.Service/Call")


@frozen
class Breakable:
    """A stack of one test's own, whose Workers and engine it may kill."""

    stack: AgentTestStack
    state_dir: Path
    new_session_id: Callable[[], str] = field(repr=False)

    def conversation(self) -> Conversation:
        return Conversation(self.stack.sessions(SCRIPTED), self.new_session_id(), self.state_dir)


@pytest_asyncio.fixture
async def breakable(
    tmp_path: Path,
    open_agent_test_stack: OpenAgentTestStack,
    new_session_id: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Breakable:
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)  # no named server is to be broken
    stack = await open_agent_test_stack(
        build_flows(tmp_path),
        WORKER,
        worker_cwd=ROOT,
        worker_env={STATE_DIR_VARIABLE: str(tmp_path)},
    )
    return Breakable(stack, tmp_path, new_session_id)
