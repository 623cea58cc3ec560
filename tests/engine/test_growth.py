"""A Step costs the same however many Flows there were before."""

from collections.abc import Callable, Sequence

import pytest
from dex import AsyncContext, StepDecision, go_to, graceful_complete

from dex_agents_dex.devengine.core.rows import Row
from dex_agents_dex.devengine.schema import STATEMENTS
from dex_agents_dex.devengine.store import Store
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step

FLOWS, COMPARED = 150, 25


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
