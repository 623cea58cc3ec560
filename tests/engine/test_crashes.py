"""The engine dies at a commit and is started again: nothing is lost, nothing happens twice."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dex import DexServiceError
from grpc import StatusCode

from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.store import Store
from tests.engine.crash_session import REPEATABLE, CrashSession, Effects, drive, is_right
from tests.engine.rig import EngineRig, Rig, free_port, rig, rig_at

BACKOFF = timedelta(seconds=1)


class _PowerCut(BaseException):
    """Stands for the end of the process, inside the store's thread."""


def _cut_at(monkeypatch: pytest.MonkeyPatch, number: int, *, is_written: bool) -> None:
    """Let the store end at its commit `number`, just before it or just after it."""
    commit, seen = Store._commit, 0

    def counted(self: Store, writes: Sequence[Any]) -> None:
        nonlocal seen
        seen += bool(writes)
        if seen < number or not writes:
            commit(self, writes)
        elif is_written:
            monkeypatch.setattr(Store, "_release", lambda *_: None)
            commit(self, writes)
            raise _PowerCut
        else:
            raise _PowerCut

    monkeypatch.setattr(Store, "_commit", counted)


async def _live(data_dir: Path, tmp_path: Path, flow: CrashSession) -> list[tuple[str, Any]] | None:
    """One life of the engine: the session's outputs, or None if the engine died first."""
    async with (
        DevEngine(data_dir) as engine,
        rig(engine, tmp_path, flow, has_worker=False) as made,
    ):
        session = asyncio.create_task(_work(made, flow))
        death = asyncio.create_task(engine.failed())
        await asyncio.wait({session, death}, return_when=asyncio.FIRST_COMPLETED)
        is_dead = death.done()
        for task in (session, death):
            task.cancel()
        await engine.stop()
        await asyncio.wait({session, death})
        assert isinstance(death.exception(), _PowerCut) if is_dead else death.cancelled()
        return None if is_dead else session.result()


async def _work(made: EngineRig, flow: CrashSession) -> list[tuple[str, Any]]:
    async with made.worker(stop_drain_timeout=timedelta(seconds=1)):
        driving = asyncio.create_task(drive(made, flow))
        try:
            while not driving.done():
                await asyncio.wait({driving}, timeout=0.05)
                made.engine.skip_time(BACKOFF)
            return driving.result()
        finally:
            driving.cancel()
            await asyncio.wait({driving})


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
async def test_crash__at_every_commit_leaves_a_session_that_ends_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """The commits are enumerated: the first number at which the session ends is one too many."""
    number, has_ended = 0, False
    while not has_ended:
        number += 1
        effects, data_dir = Effects(), tmp_path / str(number)
        flow = CrashSession(effects)
        with monkeypatch.context() as cut:
            _cut_at(cut, number, is_written=is_written)
            outputs = await _live(data_dir, tmp_path, flow)
        has_ended = outputs is not None
        if outputs is None:
            outputs = await _live(data_dir, tmp_path, flow)
        assert outputs is not None
        assert is_right(outputs, effects), f"commit {number}: {outputs}, {effects}"
    assert number > len(["start", "send", "plan", "left", "right", "join"])


@asynccontextmanager
async def _engine_command(data_dir: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The engine in a process of its own, ready; it is killed at the end."""
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dex_agents_dex.devengine"),
        *("--port", str(port), "--data-dir", str(data_dir)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert command.stdout is not None
    try:
        assert (await command.stdout.readline()).startswith(b"dev engine ready")
        yield command
    finally:
        if command.returncode is None:
            command.kill()
        await command.wait()


@pytest.mark.parametrize("moment", ["while it waits", "while a tool runs"])
async def test_sigkill__of_the_engine_lets_worker_and_session_go_on(
    tmp_path: Path, moment: str
) -> None:
    reached, restarted = asyncio.Event(), asyncio.Event()

    async def stand_still() -> None:
        reached.set()
        await restarted.wait()

    effects = Effects(before_tool=stand_still if moment == "while a tool runs" else None)
    flow = CrashSession(effects)
    port = free_port()
    async with AsyncExitStack() as stack:
        async with _engine_command(tmp_path / "data", port) as first:
            made = await stack.enter_async_context(rig_at(f"127.0.0.1:{port}", tmp_path, flow))
            await stack.enter_async_context(made.worker(stop_drain_timeout=timedelta(seconds=5)))
            await made.client.start_flow(flow, "s", "", REPEATABLE)
            if moment == "while a tool runs":
                await made.rpc(flow.send, "s", "hello")
                await reached.wait()
            first.kill()
            await first.wait()
        await stack.enter_async_context(_engine_command(tmp_path / "data", port))
        restarted.set()
        outputs = await _repeat_until_served(made, flow)
    assert is_right(outputs, effects)


async def _repeat_until_served(made: Rig, flow: CrashSession) -> list[tuple[str, Any]]:
    """As a client does whose connection the engine's death broke."""
    while True:
        try:
            return await drive(made, flow)
        except DexServiceError as error:
            if error.code is not StatusCode.UNAVAILABLE:
                raise
