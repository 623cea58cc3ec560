"""What a Flow's timeout does, by policy."""

from datetime import timedelta
from pathlib import Path

from dex import (
    AsyncContext,
    Attribute,
    Context,
    FlowErrorType,
    FlowStatus,
    FlowTimeoutHandlerOptions,
    FlowTimeoutPolicy,
    StartFlowOptions,
    StepDecision,
    StepExecutionId,
    WaitForStepCompletionOptions,
    dead_end,
    force_complete,
)

from dex_agents_dex.devengine import DevEngine
from tests.engine.conftest import OnEngine
from tests.engine.rig import ONE_ATTEMPT, Scenario, rig, step, until

HOUR = timedelta(hours=1)
COLOR = Attribute("Color", str)


async def _idle(context: AsyncContext, given: str) -> StepDecision:
    COLOR.set(context, "red")
    return dead_end()


class _Handling(Scenario):
    """A Flow with a timeout handler."""

    def handle_timeout(self, context: Context) -> StepDecision:
        return force_complete(f"{context.step_execution_id} saw {COLOR.get(context)}")


async def test_timeout__fails_the_flow_with_a_message(on_engine: OnEngine) -> None:
    flow = Scenario(step("Idle", _idle), schema=(COLOR,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "", StartFlowOptions(timeout=HOUR))
        rig.engine.skip_time(HOUR)
        result = await rig.result("f")
        assert (result.status, result.error_type, result.error_message) == (
            FlowStatus.FAILED,
            FlowErrorType.FLOW_TIMEOUT,
            "Flow timed out after 3600 seconds",
        )


async def test_timeout__cancels_the_flow_when_told_to(on_engine: OnEngine) -> None:
    flow = Scenario(step("Idle", _idle), schema=(COLOR,))
    options = StartFlowOptions(timeout=HOUR, timeout_policy=FlowTimeoutPolicy.CANCEL)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "", options)
        rig.engine.skip_time(HOUR)
        assert (await rig.result("f")).status is FlowStatus.CANCELED


async def test_timeout__runs_the_handler_of_a_flow_that_has_one(on_engine: OnEngine) -> None:
    flow = _Handling(step("Idle", _idle), schema=(COLOR,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "", StartFlowOptions(timeout=HOUR))
        await rig.client.start_flow(flow, "done", "", StartFlowOptions(timeout=HOUR))
        await rig.client.stop_flow("done")
        rig.engine.skip_time(HOUR)
        assert await rig.outputs("f") == [
            ("sys:timeout_handler-1", "sys:timeout_handler-1 saw red")
        ]
        assert (await rig.result("done")).status is FlowStatus.CANCELED


async def test_timeout__comes_once_though_the_engine_was_started_anew(tmp_path: Path) -> None:
    flow, data = _Handling(step("Idle", _idle), schema=(COLOR,)), tmp_path / "data"
    async with DevEngine(data) as engine, rig(engine, tmp_path, flow) as made:
        await made.client.start_flow(flow, "f", "", StartFlowOptions(timeout=HOUR))
        idle = StepExecutionId("Idle", 1)
        await made.client.wait_for_step_completion("f", idle, WaitForStepCompletionOptions())
    async with DevEngine(data) as engine, rig(engine, tmp_path, flow, has_worker=False):
        engine.skip_time(HOUR)  # the handler waits for a Worker
        await until(lambda: engine.counts()["offers_waiting"] == 1)
    async with DevEngine(data) as engine, rig(engine, tmp_path, flow) as made:
        engine.skip_time(2 * HOUR)
        assert await made.outputs("f") == [
            ("sys:timeout_handler-1", "sys:timeout_handler-1 saw red")
        ]


async def test_timeout__handler_that_is_spent_fails_the_flow(on_engine: OnEngine) -> None:
    class Failing(Scenario):
        def handle_timeout(self, context: Context) -> StepDecision:
            raise LookupError("no luck")

    flow = Failing(step("Idle", _idle), schema=(COLOR,))
    handler = FlowTimeoutHandlerOptions(retry=ONE_ATTEMPT)
    options = StartFlowOptions(timeout=HOUR, timeout_handler_options=handler)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "", options)
        rig.engine.skip_time(HOUR)
        result = await rig.result("f")
        assert (result.status, result.error_message) == (FlowStatus.FAILED, "no luck")
