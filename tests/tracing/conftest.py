"""What the tests of tracing share: one server, and Workers in the test's own process, so that it sees their spans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from attrs import field, frozen
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dex_agents_dex import AgentRuntime, AgentSessionFlow
from dex_agents_dex.testing import AgentTestStack, wait_until
from dex_agents_dex.testing.plugin import open_agent_test_stack

from ..binding.conversation import Conversation
from .flows import TRACED, traced_flow
from .seen import Seen, as_data, new_provider, seen_in

__all__ = ["open_agent_test_stack"]

ROOT = Path(__file__).resolve().parents[2]
WORKER = "tests.tracing.worker"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server_address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A server without a Worker."""
    state_dir = tmp_path_factory.mktemp("traced")
    flow = traced_flow(state_dir, None)
    async with AgentTestStack(state_dir, (flow,), WORKER) as stack:
        yield stack.server_address


@frozen
class Tracer:
    """Serves a session in this process, and sees the spans that end."""

    server_address: str
    state_dir: Path
    session_id: str
    spans: InMemorySpanExporter = field(factory=InMemorySpanExporter)

    def provider(self, **arguments: Any) -> TracerProvider:
        return new_provider(SimpleSpanProcessor(self.spans), **arguments)

    @asynccontextmanager
    async def serving(self, flow: AgentSessionFlow | None = None) -> AsyncIterator[Conversation]:
        """The session, with a Worker for ``flow``, else for the Flow that all these tests have."""
        served = flow or traced_flow(self.state_dir, self.provider())
        async with AgentRuntime(served, server_address=self.server_address) as runtime:
            yield Conversation(runtime.sessions(TRACED), self.session_id, self.state_dir)

    def data(self) -> list[dict[str, Any]]:
        return as_data(self.spans.get_finished_spans())

    async def turn(self, number: int = 1) -> list[Seen]:
        """Every span of one turn, once its last one has ended."""

        def own() -> list[dict[str, Any]]:
            turn = f"turn-{number}"
            return [span for span in self.data() if span["attributes"].get("dex.turn.id") == turn]

        def ended() -> bool:
            return any(span["name"].startswith("invoke_agent ") for span in own())

        await wait_until(f"the end of turn {number}'s trace", ended)
        return seen_in(own())


@pytest.fixture
def tracer(server_address: str, tmp_path: Path) -> Tracer:
    return Tracer(server_address, tmp_path, f"traced-{uuid4().hex[:8]}")
