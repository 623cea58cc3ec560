"""Looking at Flows, and waiting for what they come to: state, history, Steps, values."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from dex import (
    AsyncContext,
    Attribute,
    AttributeMatch,
    Channel,
    Context,
    DexServiceError,
    FlowNotActiveOrNotFoundError,
    RequestTimeoutError,
    RPCResult,
    Step,
    StepDecision,
    StepExecutionId,
    Timer,
    TimerId,
    Wait,
    WaitForAttributeOptions,
    WaitForStepCompletionOptions,
    dead_end,
    go_to,
    graceful_complete,
    rpc,
)
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from grpc import StatusCode

from tests.engine.conftest import OnEngine
from tests.engine.rig import Rig, Scenario, step, until

COUNT, NAME = Attribute("Count", int), Attribute("Name", str)
INBOX = Channel("Inbox", str)
SOON, LATER = timedelta(seconds=1), timedelta(seconds=20)


class _Open(Scenario):
    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(COUNT, NAME, INBOX))

    @rpc(is_transactional=True)
    def count_to(self, context: Context, number: int) -> RPCResult[bool]:
        COUNT.set(context, number)
        return RPCResult(True)

    @rpc(is_transactional=True)
    def publish(self, context: Context, text: str) -> RPCResult[bool]:
        INBOX.publish(context, text)
        return RPCResult(True)


async def _idle(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def _finish(context: AsyncContext, given: str) -> StepDecision:
    return graceful_complete(given)


@asynccontextmanager
async def _service(rig: Rig) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(rig.address) as channel:
        yield dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code


async def test_wait_for_attribute__returns_the_value_that_matched(on_engine: OnEngine) -> None:
    flow = _Open(step("Idle", _idle))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        waiting = asyncio.create_task(
            rig.client.wait_for_attribute_match(
                "f", COUNT, AttributeMatch.greater_than(2), WaitForAttributeOptions()
            )
        )
        for number in (1, 2, 7):
            await rig.rpc(flow.count_to, "f", number)
        assert await waiting == 7


async def test_wait_for_attribute__ends_with_the_callers_budget_or_the_flow(
    on_engine: OnEngine,
) -> None:
    flow = _Open(step("Idle", _idle))
    never = AttributeMatch.equal_to("never")
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        brief = WaitForAttributeOptions(request_timeout=SOON)
        with pytest.raises(RequestTimeoutError):
            await rig.client.wait_for_attribute_match("f", NAME, never, brief)
        waiting = asyncio.create_task(
            rig.client.wait_for_attribute_match("f", NAME, never, WaitForAttributeOptions())
        )
        await rig.client.stop_flow("f")
        with pytest.raises(FlowNotActiveOrNotFoundError):
            await waiting


async def test_wait_for_attribute__sees_what_the_flow_wrote_as_it_ended(
    on_engine: OnEngine,
) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def end(context: AsyncContext, given: str) -> StepDecision:
        NAME.set(context, "ended")
        return graceful_complete("done")

    flow = _Open(step("End", end, wait_for=wait))
    match, options = AttributeMatch.equal_to("ended"), WaitForAttributeOptions()
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        waiting = asyncio.create_task(
            rig.client.wait_for_attribute_match("f", NAME, match, options)
        )
        await until(lambda: rig.engine.counts()["polls_waiting"] == 1)
        await rig.rpc(flow.publish, "f", "go on")
        assert await waiting == "ended"
        with pytest.raises(FlowNotActiveOrNotFoundError):
            await rig.client.wait_for_attribute_match("f", NAME, match, options)


async def test_wait_for_step_completion__returns_once_that_execution_ended(
    on_engine: OnEngine,
) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def again(context: AsyncContext, given: str) -> StepDecision:
        return go_to(type(taking), "")

    taking = step("Taking", again, wait_for=wait)
    flow = _Open(taking)
    options = WaitForStepCompletionOptions()
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")

        async def completed(number: int) -> None:
            await rig.client.wait_for_step_completion(
                "f", StepExecutionId("Taking", number), options
            )

        second = asyncio.create_task(completed(2))
        await rig.rpc(flow.publish, "f", "a")
        await completed(1)
        assert not second.done()
        await rig.rpc(flow.publish, "f", "b")
        await second
        third = asyncio.create_task(completed(3))
        await rig.client.stop_flow("f")
        with pytest.raises(FlowNotActiveOrNotFoundError):
            await third
        await completed(2)


async def test_skip_timer__fires_one_timer_by_id_or_index(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.all_of(
            Timer.by_duration(timedelta(hours=1), condition_id="first"),
            Timer.by_duration(timedelta(hours=2)),
        )

    flow = _Open(step("Waiting", _finish, wait_for=wait))
    execution = StepExecutionId("Waiting", 1)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "woken")
        async with _service(rig) as service:
            while not await _is_waiting(service, "Waiting-1"):
                pass
            await rig.client.skip_timer("f", execution, TimerId.by_condition_id("first"))
            for wrong in (TimerId.by_condition_id("x"), TimerId.by_condition_index(2)):
                with pytest.raises(DexServiceError) as refused:
                    await rig.client.skip_timer("f", execution, wrong)
                assert refused.value.code is StatusCode.INVALID_ARGUMENT
            assert await _is_waiting(service, "Waiting-1")
            await rig.client.skip_timer("f", execution, TimerId.by_condition_index(1))
        assert await rig.outputs("f") == [("Waiting-1", "woken")]


async def _is_waiting(service: Any, step_id: str) -> bool:
    state = await service.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
    return [(each.step_execution_id, each.phase) for each in state.active_step_executions] == [
        (step_id, pb.ACTIVE_STEP_PHASE_WAITING)
    ]


async def test_flow_state__shows_attributes_steps_and_messages(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_n(2))

    flow = _Open(step("Taking", _finish, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.count_to, "f", 3)
        await rig.rpc(flow.publish, "f", "a")
        async with _service(rig) as service:
            while not await _is_waiting(service, "Taking-1"):
                pass
            state = await service.GetFlowState(pb.GetFlowStateRequest(flow_id="f"))
        assert list(state.attributes) == [pb.KV(key="Count", value=pb.Value(int_value=3))]
        [message] = state.pending_channel_messages["Inbox"].messages
        assert message.value == pb.Value(string_value="a")


async def test_history__tells_each_method_and_is_paged(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.skip_immediately()

    flow = _Open(step("Only", _finish, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.result("f")
        async with _service(rig) as service:
            told: list[str] = []
            token = b""
            while not told or token:
                page = await service.GetHistoryEvents(
                    pb.GetHistoryEventsRequest(
                        flow_id="f", estimate_page_size=2, next_page_token=token
                    )
                )
                told += [event.WhichOneof("payload") for event in page.events]
                token = page.next_page_token
            assert told == [
                "flow_started_or_continued",
                "step_wait_for_completed",
                "step_execute_completed",
                "flow_closed",
            ]
            first = await service.WaitForHistoryEvent(
                pb.WaitForHistoryEventRequest(flow_id="f", next_internal_event_id=1)
            )
            assert (first.event_available, first.available_internal_event_id) == (True, 4)


@pytest.mark.parametrize(
    ("call", "request_message"),
    [
        ("PublishToChannel", pb.PublishToChannelRequest()),
        ("GetChannelMessages", pb.GetChannelMessagesRequest()),
        ("DeleteChannelMessage", pb.DeleteChannelMessageRequest()),
        ("GetAttributes", pb.GetAttributesRequest()),
        ("SetAttributes", pb.SetAttributesRequest()),
        ("ResetFlow", pb.ResetFlowRequest()),
        ("TriggerContinueAsNew", pb.TriggerContinueAsNewRequest()),
    ],
)
async def test_call__that_is_not_implemented_names_the_feature(
    on_engine: OnEngine, call: str, request_message: Any
) -> None:
    flow = _Open(step("Idle", _idle))
    async with on_engine(flow, has_worker=False) as rig, _service(rig) as service:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await getattr(service, call)(request_message)
        assert refused.value.code() is StatusCode.UNIMPLEMENTED
        assert "the dev engine does not implement" in str(refused.value.details())
