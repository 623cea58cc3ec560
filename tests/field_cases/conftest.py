"""What the field cases share: one engine and one Worker for each process of the test run, which tests may kill."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from dex_agents_dex import AgentRuntime
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack
from tests.binding.conftest import ROOT, new_session_id

from . import worker
from .bench import Bench, SharedStack
from .provider import Provider, provider_in_a_thread

__all__ = ["new_session_id"]


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    with provider_in_a_thread() as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_stack(
    tmp_path_factory: pytest.TempPathFactory, provider: Provider
) -> AsyncIterator[SharedStack]:
    state_dir = tmp_path_factory.mktemp("field-cases")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(SERVER_ADDRESS_VARIABLE, raising=False)  # no named server is to be broken
        async with AgentTestStack(
            state_dir,
            worker.build_flows(state_dir, provider.base_url),
            worker.__name__,
            worker_cwd=ROOT,
            worker_env={
                worker.STATE_DIR: str(state_dir),
                worker.PROVIDER_URL: provider.base_url,
            },
        ) as stack:
            yield SharedStack(stack, state_dir, await stack.start_worker())


@pytest_asyncio.fixture
async def bench(
    shared_stack: SharedStack, provider: Provider, new_session_id: Callable[[], str]
) -> AsyncIterator[Bench]:
    """The shared server and its Worker, both alive, and a client of the test's own."""
    await shared_stack.start_worker()
    flows = worker.build_flows(shared_stack.state_dir, provider.base_url)
    address = shared_stack.stack.server_address
    async with AgentRuntime(*flows, server_address=address, serve=False) as runtime:
        yield Bench(shared_stack, runtime, provider, new_session_id)
