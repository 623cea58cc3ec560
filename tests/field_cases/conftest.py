"""What the field cases share: one engine and one Worker for each process of the test run, which tests may kill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from dex_agents_dex import AgentRuntime
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack
from tests.binding.conftest import ROOT, new_session_id

from . import agent
from .bench import Bench, SharedStack

__all__ = ["new_session_id"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedStack]:
    state_dir = tmp_path_factory.mktemp("field-cases")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(SERVER_ADDRESS_VARIABLE, raising=False)  # no named server is to be broken
        async with AgentTestStack(
            state_dir,
            agent.build_flows(state_dir),
            agent.__name__,
            worker_cwd=ROOT,
            worker_env={agent.STATE_DIR: str(state_dir)},
        ) as stack:
            yield SharedStack(stack, state_dir, await stack.start_worker())


@pytest_asyncio.fixture
async def bench(
    shared_stack: SharedStack, new_session_id: Callable[[], str]
) -> AsyncIterator[Bench]:
    """The shared server and its Worker, both alive, and a client of the test's own."""
    await shared_stack.start_worker()
    flows = agent.build_flows(shared_stack.state_dir)
    address = shared_stack.stack.server_address
    async with AgentRuntime(*flows, server_address=address, serve=False) as runtime:
        yield Bench(shared_stack, runtime, new_session_id)
