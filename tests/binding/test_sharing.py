"""Several programs on one data directory: one engine, which ends when nobody needs it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dex_agents_dex import AgentRuntime
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.data_directory import DataDirectory
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import wait_until

from .conversation import Conversation
from .flows import SCRIPTED, build_flows
from .script import Call, Reply


@pytest.fixture(autouse=True)
def no_named_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)


async def test_runtime__joins_the_engine_that_runs(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with (
        DevEngine(data_dir) as engine,
        AgentRuntime(*build_flows(tmp_path), data_dir=data_dir) as runtime,
    ):
        assert runtime.server_address == engine.address


async def test_runtime__of_several_started_at_once_all_have_one_engine(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    async def address(number: int) -> str:
        flows = build_flows(tmp_path / str(number))
        async with AgentRuntime(*flows, data_dir=data_dir, serve=False) as runtime:
            addresses.append(runtime.server_address)
            await wait_until("all programs", lambda: len(addresses) == 3)
            return runtime.server_address

    addresses: list[str] = []
    seen = await asyncio.gather(*map(address, range(3)))

    assert len(set(seen)) == 1


async def test_runtime__finds_its_engine_on_the_same_port_again(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    addresses = []
    for _ in range(2):
        async with AgentRuntime(*build_flows(tmp_path), data_dir=data_dir, serve=False) as runtime:
            addresses.append(runtime.server_address)

    assert addresses[0] == addresses[1]
    assert DataDirectory(data_dir).address_of_running_engine() is None


async def test_engine__stays_while_a_second_program_uses_it(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    directory = DataDirectory(data_dir)
    second = AgentRuntime(*build_flows(tmp_path), data_dir=data_dir, serve=False)
    async with AgentRuntime(*build_flows(tmp_path), data_dir=data_dir, serve=False) as first:
        await second.__aenter__()
    after_the_first = directory.address_of_running_engine()
    await second.__aexit__(None, None, None)

    assert after_the_first == first.server_address
    await wait_until("the engine's end", lambda: directory.address_of_running_engine() is None)


async def test_worker__claims_by_its_own_client_when_another_of_its_program_has_come_and_gone(
    tmp_path: Path,
) -> None:
    flows, data_dir = build_flows(tmp_path), tmp_path / "data"
    async with AgentRuntime(*flows, data_dir=data_dir) as serving:
        async with AgentRuntime(*flows, data_dir=data_dir, serve=False):
            pass
        conversation = Conversation(serving.sessions(SCRIPTED), "s", tmp_path)

        await conversation.start(Reply(calls=(Call(id="c", tool="pay"),)), Reply(text="an answer"))

        assert await conversation.answers() == ["c: done", "an answer"]
