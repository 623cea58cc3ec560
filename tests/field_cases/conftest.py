"""What the field cases share: one server with one Worker for all that kill nothing, and benches of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from dex_agents_dex import AgentRuntime
from dex_agents_dex.runtime import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack
from dex_agents_dex.testing.plugin import OpenAgentTestStack, open_agent_test_stack
from tests.binding.conftest import ROOT, Served, new_session_id

from . import agent
from .bench import Bench

__all__ = ["new_session_id", "open_agent_test_stack"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One server and one Worker for all cases of this process that break neither."""
    state_dir = tmp_path_factory.mktemp("field-cases")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
        async with AgentTestStack(
            state_dir,
            agent.build_flows(state_dir),
            agent.__name__,
            worker_cwd=ROOT,
            worker_env={agent.STATE_DIR: str(state_dir)},
        ) as stack:
            await stack.start_worker()
            yield Served(stack.server_address, state_dir)


@pytest_asyncio.fixture
async def bench(served: Served, new_session_id: Callable[[], str]) -> AsyncIterator[Bench]:
    """The shared server, for a test that leaves it and its Worker as they are."""
    flows = agent.build_flows(served.state_dir)
    async with AgentRuntime(*flows, server_address=served.server_address, serve=False) as runtime:
        yield Bench(runtime, served.state_dir, new_session_id)


@pytest_asyncio.fixture
async def breakable(
    tmp_path: Path,
    open_agent_test_stack: OpenAgentTestStack,
    new_session_id: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Bench, AgentTestStack]:
    """A server of the test's own without a Worker yet; the test may kill both."""
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)  # no named server is to be broken
    stack = await open_agent_test_stack(
        agent.build_flows(tmp_path),
        agent.__name__,
        worker_cwd=ROOT,
        worker_env={agent.STATE_DIR: str(tmp_path)},
    )
    return Bench(stack, tmp_path, new_session_id), stack
