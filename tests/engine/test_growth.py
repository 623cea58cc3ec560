"""A Step, and a start of the engine, cost the same however many Flows there were before."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from dex import (
    AsyncContext,
    FlowStatus,
    StepDecision,
    Timer,
    Wait,
    go_to,
    graceful_complete,
)

from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.devengine.core.rows import Row
from dex_agents_dex.devengine.schema import STATEMENTS
from dex_agents_dex.devengine.store import Store
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, rig, step

FLOWS, COMPARED = 150, 25
OPEN_FLOWS = 10_000
# Runs 2, 3, ... like the first one, which is the Flow "f".
COPIES = """
    CREATE TEMP TABLE copy AS
        WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {last})
        SELECT n FROM counted;
    INSERT INTO run (run_key, flow_id, run_id, flow_type, request_id, started_us, start)
        SELECT run_key + n, flow_id || n, run_id || n, flow_type, request_id, started_us, start
        FROM run, copy;
    CREATE TEMP TABLE copied_step AS SELECT step.*, n FROM step, copy;
    UPDATE copied_step SET run_key = run_key + n;
    ALTER TABLE copied_step DROP COLUMN n;
    INSERT INTO step SELECT * FROM copied_step;
"""


async def test_statements__of_a_flow_do_not_grow_with_the_flows_before_it(
    on_engine: OnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    submit = Store.submit

    def counted(self: Store, rows: Sequence[Row], on_durable: Callable[[], None]) -> None:
        counts[-1] += sum(len(STATEMENTS[type(row)]) for row in rows)
        submit(self, rows, on_durable)

    async def run(context: AsyncContext, left: str) -> StepDecision:
        return go_to(type(running), left[1:]) if left else graceful_complete("done")

    running = step("Running", run)
    flow = Scenario(running)
    async with on_engine(flow) as rig:
        counts.append(0)
        monkeypatch.setattr(Store, "submit", counted)
        for number in range(FLOWS):
            counts.append(0)
            await rig.client.start_flow(flow, f"f{number}", "left")
            await rig.result(f"f{number}")
    first, last = sum(counts[1 : COMPARED + 1]), sum(counts[-COMPARED:])
    assert first > 0
    assert last < 1.1 * first


async def test_restart__takes_up_nothing_of_ten_thousand_flows_that_wait(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def wait(context: AsyncContext, given: str) -> Wait:
        asked.set()
        return Wait.until(Timer.by_duration(timedelta(hours=1)))

    async def wake(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("woken")

    data, flow = tmp_path / "data", Scenario(step("Waiting", wake, wait_for=wait))
    async with DevEngine(data) as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "f", "")
        await asked.wait()  # its Worker and its engine end what they have begun
    with closing(sqlite3.connect(data / "engine.sqlite3")) as store:
        store.executescript(COPIES.format(last=OPEN_FLOWS - 1))

    async with DevEngine(data) as engine, rig(engine, tmp_path, flow) as made:
        counts = engine.counts()
        assert (counts["flows_in_memory"], counts["timers"]) == (0, OPEN_FLOWS)
        assert (await made.client.describe_flow("f7")).status is FlowStatus.RUNNING
        assert engine.counts()["flows_in_memory"] == 1
