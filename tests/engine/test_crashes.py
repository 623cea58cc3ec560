"""The engine is killed and started again: nothing is lost, nothing happens twice."""

import asyncio
import signal
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dex import DexServiceError
from grpc import StatusCode

from dex_agents_dex.devengine import EngineOptions
from dex_agents_dex.devengine.options import Redelivery
from tests.engine.crash_session import REPEATABLE, CrashSession, Effects, drive, is_right
from tests.engine.doomed_engine import Doom, Moment, engine_process
from tests.engine.rig import Rig, rig_at

KILLED_AT_ONCE = 8


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("redelivery", ["spend", "same-attempt"])
async def test_sigkill__at_every_commit_leaves_a_session_that_ends_right(
    tmp_path: Path, redelivery: Redelivery, moment: Moment
) -> None:
    """Client and Worker live on. Several commits at a time, until a session ended before the commit
    that its engine was to die at."""
    options = EngineOptions(redelivery=redelivery)
    number, killed = 0, KILLED_AT_ONCE
    while killed == KILLED_AT_ONCE:
        dooms = [Doom(number + each, moment) for each in range(1, KILLED_AT_ONCE + 1)]
        lives = await asyncio.gather(
            *(_kill_and_restart(tmp_path, options, doom) for doom in dooms)
        )
        assert [fault for _, fault in lives if fault] == []
        killed = sum(was_killed for was_killed, _ in lives)
        number += killed
    # At least, for commits of one moment share a transaction of the store.
    assert number >= len(["start", "send", "plan", "left and right", "join"])


async def _kill_and_restart(tmp_path: Path, options: EngineOptions, doom: Doom) -> tuple[bool, str]:
    """Whether the engine was killed before the session ended, and what went wrong, if anything."""
    effects, scratch = Effects(), tmp_path / f"{doom.number}-{doom.moment}"
    flow = CrashSession(effects)
    async with AsyncExitStack() as stack:
        async with engine_process(scratch / "data", doom=doom, options=options) as first:
            made = await _with_worker(stack, first.port, scratch, flow)
            session = asyncio.create_task(_repeat_until_served(made, flow))
            await asyncio.wait({session, first.end}, return_when=asyncio.FIRST_COMPLETED)
            was_killed = first.end.done()
        assert first.end.result() == -signal.SIGKILL
        again = engine_process(scratch / "data", port=first.port, options=options)
        await stack.enter_async_context(again)
        outputs = await session
    # Handed out again as the same attempt, a tool may run anew unless it claims its call first.
    most = 1 if options.redelivery == "spend" else 2
    is_well = is_right(outputs, effects, most_runs_of_a_tool=most)
    fault = "" if is_well else f"{doom}: {outputs}, {effects.runs}"
    return was_killed, fault


async def test_sigkill__while_a_tool_runs_lets_worker_and_session_go_on(tmp_path: Path) -> None:
    reached, restarted = asyncio.Event(), asyncio.Event()

    async def stand_still() -> None:
        reached.set()
        await restarted.wait()

    effects = Effects(before_tool=stand_still)
    flow = CrashSession(effects)
    async with AsyncExitStack() as stack:
        async with engine_process(tmp_path / "data") as first:
            made = await _with_worker(stack, first.port, tmp_path, flow)
            await made.client.start_flow(flow, "s", "", REPEATABLE)
            await made.rpc(flow.send, "s", "hello")
            await reached.wait()
        await stack.enter_async_context(engine_process(tmp_path / "data", port=first.port))
        restarted.set()
        outputs = await _repeat_until_served(made, flow)
    assert is_right(outputs, effects)


async def _with_worker(
    stack: AsyncExitStack, port: int, cache_dir: Path, flow: CrashSession
) -> Rig:
    made = await stack.enter_async_context(rig_at(f"127.0.0.1:{port}", cache_dir, flow))
    await stack.enter_async_context(made.worker(stop_drain_timeout=timedelta(seconds=5)))
    return made


async def _repeat_until_served(made: Rig, flow: CrashSession) -> list[tuple[str, Any]]:
    """As a client does whose connection the engine's death broke."""
    while True:
        try:
            return await drive(made, flow)
        except DexServiceError as error:
            if error.code is not StatusCode.UNAVAILABLE:
                raise
