"""What a readiness probe is told, while all is well and after the server has gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents_dex import AgentRuntime, RuntimeHealth
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.testing.private_engine import PrivateEngine
from dex_agents_dex.testing.waiting import wait_until

from .flows import build_flows

AT_ONCE = timedelta(0)
READY = RuntimeHealth(server_answers=True, worker_polls=True, trouble=None)


async def test_health__of_a_client_alone_says_nothing_of_a_worker(runtime: AgentRuntime) -> None:
    expected = RuntimeHealth(server_answers=True, worker_polls=None, trouble=None)

    health = await runtime.health()

    assert (health, health.is_ready) == (expected, True)


async def test_health__follows_the_engine_that_is_stopped_and_comes_back(tmp_path: Path) -> None:
    engine = PrivateEngine(tmp_path / "data", log_path=tmp_path / "engine.log")
    await engine.start()
    address = engine.server_address
    try:
        async with AgentRuntime(
            *build_flows(tmp_path), server_address=address, drain_timeout=AT_ONCE
        ) as runtime:
            assert await runtime.health() == READY

            engine.kill()
            health = await runtime.health()
            assert (health.is_ready, health.server_answers, health.worker_polls) == (
                *(False, False, False),
            )
            assert health.trouble is not None
            assert health.trouble.startswith(f"no Dex server answers at {address}: ")

            await engine.start()

            async def recovered() -> bool:
                return (await runtime.health()).is_ready

            assert await wait_until("a runtime that is ready again", recovered)
            assert await runtime.health() == READY
    finally:
        engine.kill()


async def test_health__names_what_the_worker_is_not_in_line_for(tmp_path: Path) -> None:
    async with (
        DevEngine(tmp_path / "data") as engine,
        AgentRuntime(*build_flows(tmp_path), server_address=engine.address) as runtime,
    ):
        assert runtime._worker is not None
        await runtime._worker.stop()  # as when its Flow types are not taken any more
        health = await runtime.health(within=timedelta(seconds=1))

    assert (health.server_answers, health.worker_polls) == (True, False)
    assert health.trouble is not None
    assert health.trouble.startswith(f"the Worker is not in line at {engine.address} for: ")
    assert health.trouble.endswith("Compacting, Impatient, Scripted, Unfenced")


async def test_health__of_a_runtime_that_was_not_entered_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="enter the runtime first"):
        await AgentRuntime(*build_flows(tmp_path)).health()
