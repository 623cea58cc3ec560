"""StopFlow: what each kind leaves, and what becomes of the Steps that run."""

import asyncio

import pytest
from dex import (
    AsyncContext,
    FlowNotActiveOrNotFoundError,
    FlowStatus,
    StepDecision,
    StopFlowOptions,
    StopType,
    dead_end,
)

from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step


async def test_stop_flow__leaves_a_status_per_kind_and_cancels_what_runs(
    on_engine: OnEngine,
) -> None:
    started, cancelled = asyncio.Queue[None](), asyncio.Queue[None]()

    async def hang(context: AsyncContext, given: str) -> StepDecision:
        started.put_nowait(None)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.put_nowait(None)
            raise
        return dead_end()

    flow = Scenario(step("Hanging", hang))
    expected = {
        StopType.CANCEL: (FlowStatus.CANCELED, ""),
        StopType.TERMINATE: (FlowStatus.TERMINATED, ""),
        StopType.FAIL: (FlowStatus.FAILED, "enough"),
    }
    async with on_engine(flow) as rig:
        for kind, (status, message) in expected.items():
            await rig.client.start_flow(flow, kind.name, "")
            await started.get()
            await rig.client.stop_flow(kind.name, StopFlowOptions(type=kind, reason="enough"))
            result = await rig.result(kind.name)
            assert (result.status, result.error_message or "") == (status, message)
            await cancelled.get()
            with pytest.raises(FlowNotActiveOrNotFoundError):
                await rig.client.stop_flow(kind.name)
