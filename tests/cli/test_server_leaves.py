"""A server that goes away in the middle of a command: what it was is told, with what to do, and the command ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.cli import connecting, listing, probing
from dex_agents_dex.cli.desk import Desk, desk_at
from dex_agents_dex.dex_server import DexServer
from dex_agents_dex.session_reads import SessionReads
from dex_agents_dex.testing import ChildProgram, wait_until
from dex_agents_dex.testing.private_engine import PrivateEngine

from . import agent
from .conftest import ROOT, Bench
from .every_command import EVERY_COMMAND, SESSION, call_of

WHAT_TO_DO = "; name a server with --server HOST:PORT, or run one with `dex-agents dev`"
PROGRAMS = {"chat", "serve"}


@pytest.fixture(scope="module")
def left_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a server with a session that nobody serves."""
    state_dir = tmp_path_factory.mktemp("left")
    made = _bench(state_dir)

    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(SESSION, "hello")

    made.on_sessions(begin)
    made.end()
    return state_dir


def _bench(state_dir: Path) -> Bench:
    """On a port of its own: gRPC is in no hurry to try one again at which it found nobody."""
    engine = PrivateEngine(state_dir / "engine", log_path=state_dir / "engine.log")
    asyncio.run(engine.start())
    return Bench(engine, state_dir)


@frozen
class Leaving:
    """A server that shows a command its session, and is gone; ``left`` has what it was asked by then."""

    bench: Bench
    left: list[str]


@pytest.fixture
def leaving(left_state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaving]:
    bench = _bench(left_state)
    left: list[str] = []

    @asynccontextmanager
    async def desk_of_a_server_that_leaves(
        server: DexServer, samples: Mapping[str, str]
    ) -> AsyncIterator[Desk]:
        async with desk_at(server, samples) as desk:
            bench.engine.kill()
            left.append(server.address)
            yield desk

    for room in (connecting, listing):
        monkeypatch.setattr(room, "desk_at", desk_of_a_server_that_leaves)
    at_once = {"within": timedelta(0)}  # else each call is tried again for five seconds
    for call in (SessionReads._ask, SessionReads._call):
        monkeypatch.setattr(call, "__kwdefaults__", at_once)
    monkeypatch.setattr(probing, "_LOOK_EVERY", timedelta(milliseconds=100))
    yield Leaving(bench, left)
    bench.end()


@pytest.mark.parametrize("name", sorted(EVERY_COMMAND.keys() - PROGRAMS))
def test_server__that_leaves_in_the_middle_is_named_with_what_to_do(
    leaving: Leaving, name: str
) -> None:
    result = leaving.bench.run(*call_of(name))

    address = leaving.bench.engine.server_address
    assert leaving.left == [address]
    assert result.exit_code == 3, result.output
    assert result.stderr.startswith(f"error: no Dex server answers at {address}: ")
    assert result.stderr.endswith(f"{WHAT_TO_DO}\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(PROGRAMS))
async def test_program__ends_when_its_server_stays_away(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    program = ChildProgram(
        name,
        ["dex_agents_dex.cli", *call_of(name), *bench.server],
        log_path=tmp_path / f"{name}.log",
        cwd=ROOT,
        env={agent.STATE_DIR_VARIABLE: str(tmp_path)},
    )
    try:
        if name == "serve":
            await program.wait_for_line("serving")
        else:
            await wait_until("the session", lambda: _exists(bench.dex_server))
        bench.engine.kill()

        with pytest.raises(RuntimeError, match="ended with code 3") as ended:
            await program.wait_for_line("never said")
    finally:
        program.kill()
    address = bench.engine.server_address
    assert f"error: no Dex server answers at {address}: " in str(ended.value)
    assert WHAT_TO_DO in str(ended.value)


async def _exists(server: DexServer) -> bool:
    async with server.flow_service() as service:
        try:
            await service.GetFlowSummary(pb.GetFlowSummaryRequest(flow_id=SESSION))
        except Exception:  # noqa: BLE001 - not yet
            return False
    return True
