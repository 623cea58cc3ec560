"""What the tests of the command line share: engines and Workers as processes of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from attrs import define, field
from click.testing import CliRunner, Result

from dex_agents_dex import AgentRuntime, AgentSessionClient
from dex_agents_dex.cli import main
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE, DexServer
from dex_agents_dex.testing import ChildProgram, FileGate, wait_for_agent_snapshot
from dex_agents_dex.testing.private_engine import PrivateEngine
from dex_agents_model import AgentSnapshot
from dex_agents_model.records import WaitingForUserMessage

from . import agent

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]


def dex_agents(*arguments: str) -> Result:
    """Run the command in this process, as a script would."""
    return CliRunner().invoke(main, arguments, env={SERVER_ADDRESS_VARIABLE: ""})


async def wait_for_end(
    sessions: AgentSessionClient, session_id: str, *, turn_count: int = 1
) -> AgentSnapshot:
    """The session when that many turns have ended and none runs."""

    def ended(snapshot: AgentSnapshot) -> AgentSnapshot | None:
        state = snapshot.state
        is_idle = isinstance(state, WaitingForUserMessage) and state.turn_count == turn_count
        return snapshot if is_idle else None

    return await wait_for_agent_snapshot(
        sessions, session_id, ended, description=f"the end of {turn_count} turns"
    )


@define(eq=False)
class Bench:
    """A server, and Workers when a test starts them."""

    engine: PrivateEngine
    state_dir: Path
    workers: list[ChildProgram] = field(factory=list)

    @property
    def dex_server(self) -> DexServer:
        return DexServer(self.engine.server_address)

    @property
    def server(self) -> tuple[str, str]:
        """The option that names it."""
        return ("--server", self.engine.server_address)

    def run(self, *arguments: str) -> Result:
        """Run the command on this server."""
        return dex_agents(*arguments, *self.server)

    def read(self, *arguments: str) -> Any:
        """The JSON that the command prints."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def gate(self, session_id: str) -> FileGate:
        return agent.gate(self.state_dir, session_id)

    async def serve(self) -> ChildProgram:
        """Start `dex-agents serve` and wait until it serves."""
        worker = ChildProgram(
            "serve",
            ["dex_agents_dex.cli", "serve", agent.NAME, *self.server],
            log_path=self.state_dir / f"serve-{len(self.workers)}.log",
            cwd=ROOT,
            env={agent.STATE_DIR_VARIABLE: str(self.state_dir)},
        )
        self.workers.append(worker)
        await worker.wait_for_line(f"serving {agent.FLOW_TYPE}")
        return worker

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AgentSessionClient]:
        flow = agent.build_flow()
        address = self.engine.server_address
        async with AgentRuntime(flow, server_address=address, serve=False) as runtime:
            yield runtime.sessions(flow)

    def on_sessions(self, act: Callable[[AgentSessionClient], Awaitable[T]]) -> T:
        """What ``act`` comes to, for a test that is not a coroutine because a command runs a loop of its own."""

        async def acted() -> T:
            async with self.client() as sessions:
                return await act(sessions)

        return asyncio.run(acted())

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.engine.kill()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A server of the test's own, without a Worker."""
    engine = PrivateEngine(tmp_path / "engine", log_path=tmp_path / "engine.log")
    asyncio.run(engine.start())
    made = Bench(engine, tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One server with one Worker, for tests that break nothing."""
    state_dir = tmp_path_factory.mktemp("served")
    engine = PrivateEngine(state_dir / "engine", log_path=state_dir / "engine.log")
    asyncio.run(engine.start())
    made = Bench(engine, state_dir)
    try:
        asyncio.run(made.serve())
        yield made
    finally:
        made.end()


@pytest.fixture
def session_id(request: pytest.FixtureRequest) -> str:
    """An ID that no other test uses."""
    return f"s-{uuid4().hex[:8]}"


@pytest.fixture
def ended(served: Bench, session_id: str) -> str:
    """A session whose first turn has ended."""

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, "hello")
        await wait_for_end(sessions, session_id)

    served.on_sessions(begin)
    return session_id
