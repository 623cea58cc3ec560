"""`serve` and `dev`: programs that run until they are told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from dex_agents_dex.testing import ChildProgram

from . import agent
from .conftest import ROOT, Bench, dex_agents, wait_for_end


async def test_serve__at_sigterm_lets_the_tool_that_runs_end(bench: Bench, session_id: str) -> None:
    worker = await bench.serve()
    async with bench.client() as sessions:
        await sessions.start_session(session_id, "wait here")
        await bench.gate(session_id).wait_until_reached()
        os.kill(worker.pid, signal.SIGTERM)
        await worker.wait_for_line("stopping: what runs may end")
        bench.gate(session_id).release()
        await worker.stop()  # fails unless it ends with 0

        await bench.serve()
        snapshot = await wait_for_end(sessions, session_id)
    assert snapshot.messages[-1].text == "wait done: wait here."
    assert len(agent.calls(bench.state_dir).read(name="wait")) == 1


def test_dev__is_the_engine_that_the_other_commands_find(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    place = ("--data-dir", str(data_dir))
    engine = ChildProgram(
        "dev",
        ["dex_agents_dex.cli", "dev", "--port", "0", *place],
        log_path=tmp_path / "dev.log",
        cwd=ROOT,
    )
    try:
        ready = json.loads(asyncio.run(engine.wait_for_line('{"address"')))
        found = dex_agents("show", "nobody", *place)
        assert (found.exit_code, "there is no session 'nobody'" in found.stderr) == (4, True)
        assert json.loads((data_dir / "engine.json").read_text())["address"] == ready["address"]
        asyncio.run(engine.stop())
    finally:
        engine.kill()
