"""StartFlow: which id may be used when, and what a start brings into the Flow."""

from datetime import timedelta
from pathlib import Path

import pytest
from dex import (
    AsyncClient,
    AsyncContext,
    Attribute,
    AttributeMap,
    BlobCacheConfig,
    ClientOptions,
    DexServiceError,
    Flow,
    FlowAlreadyStartedError,
    FlowConfig,
    FlowStatus,
    IdReusePolicy,
    StartFlowOptions,
    StepDecision,
    StepList,
    StepOptions,
    StopFlowOptions,
    StopType,
    WorkerTarget,
    dead_end,
    graceful_complete,
    open_blob_cache,
)
from grpc import StatusCode

from dex_agents_dex.devengine import DevEngine
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step


async def _finish(context: AsyncContext, given: str) -> StepDecision:
    return graceful_complete(given)


async def _idle(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def test_start__runs_the_first_step_with_its_input(on_engine: OnEngine) -> None:
    flow = Scenario(step("First", _finish))
    async with on_engine(flow) as rig:
        run_id = await rig.client.start_flow(flow, "a", "hello")
        assert await rig.outputs("a") == [("First-1", "hello")]
        info = await rig.client.describe_flow("a")
        assert (info.flow_id, info.run_id, info.flow_type, info.status) == (
            "a",
            run_id,
            "Scenario",
            FlowStatus.COMPLETED,
        )


async def test_start__without_a_worker_target_is_for_workers_that_pull(
    engine: DevEngine, on_engine: OnEngine, tmp_path: Path
) -> None:
    flow = Scenario(step("First", _finish))
    async with on_engine(flow) as rig:
        cache = open_blob_cache(BlobCacheConfig(str(tmp_path / "plain"), 1 << 20))
        options = ClientOptions(server_address=engine.address)
        async with AsyncClient(rig.registry, cache, options) as client:
            await client.start_flow(flow, "a", "hello")
        assert await rig.outputs("a") == [("First-1", "hello")]


async def test_start__for_a_worker_that_is_called_is_refused_by_name(on_engine: OnEngine) -> None:
    flow = Scenario(step("First", _finish))
    called = FlowConfig(worker_target=WorkerTarget("127.0.0.1:1"))
    async with on_engine(flow) as rig:
        with pytest.raises(DexServiceError, match="push Workers") as refused:
            await rig.client.start_flow(flow, "a", "x", StartFlowOptions(config_override=called))
        assert refused.value.code is StatusCode.UNIMPLEMENTED


async def test_start__repeated_with_its_request_id_answers_the_same_run(
    on_engine: OnEngine,
) -> None:
    flow = Scenario(step("First", _finish))
    repeatable = StartFlowOptions(request_id="r1", ignore_already_started=True)
    async with on_engine(flow) as rig:
        first = await rig.client.start_flow(flow, "a", "x", repeatable)
        assert await rig.client.start_flow(flow, "a", "x", repeatable) == first
        with pytest.raises(FlowAlreadyStartedError):
            await rig.client.start_flow(
                flow, "a", "x", StartFlowOptions(request_id="r2", ignore_already_started=True)
            )
        with pytest.raises(FlowAlreadyStartedError):
            await rig.client.start_flow(flow, "a", "x", StartFlowOptions(request_id="r1"))


@pytest.mark.parametrize(
    ("policy", "while_running", "after_completion", "after_failure"),
    [
        (IdReusePolicy.DEFAULT, False, False, False),
        (IdReusePolicy.DISALLOW, False, False, False),
        (IdReusePolicy.ALLOW_IF_NOT_RUNNING, False, True, True),
        (IdReusePolicy.ALLOW_IF_PREVIOUS_FAILED, False, False, True),
        (IdReusePolicy.ALLOW_TERMINATE_IF_RUNNING, True, True, True),
    ],
)
async def test_start__reuses_an_id_as_its_policy_says(
    on_engine: OnEngine,
    policy: IdReusePolicy,
    while_running: bool,
    after_completion: bool,
    after_failure: bool,
) -> None:
    idle, finish = step("Idle", _idle), step("Finish", _finish)
    idling, finishing = Scenario(idle), _Finishing(finish)
    again = StartFlowOptions(id_reuse_policy=policy)
    async with on_engine(idling, finishing) as rig:

        async def may_start(flow_id: str) -> bool:
            try:
                await rig.client.start_flow(idling, flow_id, "again", again)
            except FlowAlreadyStartedError:
                return False
            return True

        await rig.client.start_flow(idling, "running", "x")
        await rig.client.start_flow(finishing, "completed", "x")
        await rig.result("completed")
        await rig.client.start_flow(idling, "failed", "x")
        await rig.client.stop_flow("failed", StopFlowOptions(type=StopType.FAIL))
        assert (
            await may_start("running"),
            await may_start("completed"),
            await may_start("failed"),
        ) == (while_running, after_completion, after_failure)


class _Finishing(Scenario):
    pass


async def test_start__gives_the_first_step_initial_attributes(on_engine: OnEngine) -> None:
    color, notes = Attribute("Color", str), AttributeMap("Notes", str)

    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(
            [color.get(context), *(str(notes.get(context, k)) for k in ("a b", "c"))]
        )

    options = StepOptions(execute_load_attribute_maps=(notes,))
    flow = Scenario(step("First", read, options=options), schema=(color, notes))
    start = StartFlowOptions().with_attribute(color, "red").with_attribute(notes, "a b", "n")
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "a", "x", start)
        assert await rig.outputs("a", list[str]) == [("First-1", ["red", "n", "None"])]


async def test_start__waits_for_its_delay(on_engine: OnEngine) -> None:
    flow = Scenario(step("First", _finish))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(
            flow, "a", "x", StartFlowOptions(start_delay=timedelta(hours=1))
        )
        assert (await rig.client.describe_flow("a")).status is FlowStatus.RUNNING
        rig.engine.skip_time(timedelta(hours=1))
        assert await rig.outputs("a") == [("First-1", "x")]


class _Stepless(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.empty()


async def test_start__of_a_flow_without_a_first_step_idles(on_engine: OnEngine) -> None:
    flow = _Stepless()
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "a", None)
        assert (await rig.client.describe_flow("a")).status is FlowStatus.RUNNING


@pytest.mark.parametrize("flow_id", ["a/b", "a$b", "a:b"])
async def test_start__refuses_reserved_characters(on_engine: OnEngine, flow_id: str) -> None:
    flow = Scenario(step("First", _finish))
    async with on_engine(flow, has_worker=False) as rig:
        with pytest.raises(DexServiceError, match="must not contain") as refused:
            await rig.client.start_flow(flow, flow_id, "x")
        assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_start__refuses_a_heartbeat_timeout_below_ten_seconds(on_engine: OnEngine) -> None:
    options = StepOptions(heartbeat_timeout=timedelta(seconds=9))
    flow = Scenario(step("First", _finish, options=options))
    async with on_engine(flow, has_worker=False) as rig:
        with pytest.raises(DexServiceError, match="heartbeat_timeout of 9 s") as refused:
            await rig.client.start_flow(flow, "a", "x")
        assert refused.value.code is StatusCode.INVALID_ARGUMENT
