"""A fault of the engine's own: it stays with the run that it struck, whose stored state counts."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from dex import (
    AsyncContext,
    Attribute,
    Context,
    DexServiceError,
    RPCResult,
    StepDecision,
    dead_end,
    graceful_complete,
    rpc,
)
from grpc import StatusCode

from dex_agents_dex.devengine.core import finishing, rpcs
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.transaction import Transaction
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step

COLOR = Attribute("Color", str)


class _Painted(Scenario):
    @rpc(is_transactional=True)
    def paint(self, context: Context, color: str) -> RPCResult[bool]:
        COLOR.set(context, color)
        return RPCResult(True)

    @rpc
    def color(self, context: Context) -> RPCResult[str]:
        return RPCResult(str(COLOR.get(context)))


def _break_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, flow_id: str) -> None:
    """Let a rule of the core do its work for a Flow, and fail after it, the first time."""
    rule, has_broken = getattr(module, name), False

    def broken_once(tx: Transaction, run: Run, *arguments: Any) -> Any:
        nonlocal has_broken
        result = rule(tx, run, *arguments)
        if run.flow_id == flow_id and not has_broken:
            has_broken = True
            raise ZeroDivisionError("a fault of the engine")
        return result

    monkeypatch.setattr(module, name, broken_once)


async def test_fault__in_a_result_costs_the_attempt_and_nothing_else(
    on_engine: OnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(context: AsyncContext, given: str) -> StepDecision:
        seen = COLOR.get(context)
        COLOR.set(context, "red")
        return graceful_complete([str(seen), str(context.attempt)])

    flow = Scenario(step("Running", run), schema=(COLOR,))
    _break_once(monkeypatch, finishing, "apply_execute", "struck")
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "struck", "")
        await rig.client.start_flow(flow, "other", "")
        outputs = asyncio.gather(rig.outputs("struck", list[str]), rig.outputs("other", list[str]))
        while not outputs.done():
            await asyncio.wait({outputs}, timeout=0.05)
            rig.engine.skip_time(timedelta(seconds=1))
        assert list(await outputs) == [
            [("Running-1", ["None", "2"])],
            [("Running-1", ["None", "1"])],
        ]


async def test_fault__in_an_rpc_reaches_its_caller_and_leaves_the_flow_as_it_was(
    on_engine: OnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def idle(context: AsyncContext, given: str) -> StepDecision:
        return dead_end()

    flow = _Painted(step("Idle", idle), schema=(COLOR,))
    _break_once(monkeypatch, rpcs, "write_attributes", "f")
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        with pytest.raises(DexServiceError, match="broke off half-way") as failed:
            await rig.rpc(flow.paint, "f", "red")
        assert failed.value.code is StatusCode.INTERNAL
        assert await rig.rpc(flow.color, "f") == "None"
        assert await rig.rpc(flow.paint, "f", "blue") is True
        assert await rig.rpc(flow.color, "f") == "blue"
