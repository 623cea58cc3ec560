"""What a call that cannot be answered is told: the gRPC code, and the sub-status that the SDK reads."""

import asyncio
from typing import Any, TypeAlias, cast

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from google.protobuf.message import Message
from google.rpc import status_pb2
from grpc import StatusCode

from dex_agents_dex.devengine import DevEngine
from tests.engine.rig import until
from tests.engine.wire_worker import WireWorker

PROCEED = pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP

Told: TypeAlias = tuple[str, str]

BAD = ("INVALID_ARGUMENT", "UNCATEGORIZED")
GONE = ("NOT_FOUND", "FLOW_NOT_EXISTS")
MISSING_FEATURE = ("UNIMPLEMENTED", "UNCATEGORIZED")
STILL_NOTHING = ("DEADLINE_EXCEEDED", "LONG_POLL_TIME_OUT")
OUT_OF_TIME = ("DEADLINE_EXCEEDED", "REQUEST_TIMEOUT")


def _start(**differing: Any) -> pb.StartFlowRequest:
    return pb.StartFlowRequest(
        **{"flow_id": "new", "flow_type": "T", "request_id": "r", **differing}
    )


def _options(**options: Any) -> pb.StartFlowRequest:
    return _start(flow_start_options=pb.FlowStartOptions(**options))


def _step(step_type: str = "A", **options: Any) -> pb.StartFlowRequest:
    return _start(start_step_type=step_type, step_options=pb.StepOptions(**options))


def _handler(**options: Any) -> pb.StartFlowRequest:
    return _options(timeout_handler_options=pb.FlowTimeoutHandlerOptions(**options))


def _match(flow_id: str, key: str = "k", **differing: Any) -> pb.WaitForAttributeRequest:
    match = pb.AttributeMatch(
        key=key,
        operator=pb.ATTRIBUTE_MATCH_OPERATOR_EQUAL,
        operand=pb.Value(string_value="v"),
    )
    match.MergeFrom(pb.AttributeMatch(**differing))
    return pb.WaitForAttributeRequest(flow_id=flow_id, match=match, request_timeout_seconds=1)


def _push() -> pb.StartFlowRequest:
    request = _start()
    request.flow_start_options.flow_config_override.worker_target.address = "127.0.0.1:1"
    return request


def _completion(flow_id: str, number: str, seconds: int = 1) -> pb.WaitForStepCompletionRequest:
    return pb.WaitForStepCompletionRequest(
        flow_id=flow_id,
        step_type="A",
        step_execution_number=number,
        request_timeout_seconds=seconds,
    )


STREAM: dict[str, Any] = {"flow_type": "T", "stream_name": "S", "flow_id": "f"}
BLOB = pb.LoadBlobsRequest()
BLOB.entries.add(flow_id="open", blob_value=pb.Value(internal_blob_id_for_obj_value="1-none"))

# The Flow "open" is running, and a waiting RPC holds its lock "held"; "closed" was stopped.
CASES: tuple[tuple[str, Message, Told], ...] = (
    ("StartFlow", _start(request_id=""), BAD),
    ("StartFlow", _start(flow_id=""), BAD),
    ("StartFlow", _start(flow_type=""), BAD),
    ("StartFlow", _start(flow_id="a/b"), BAD),
    ("StartFlow", _start(flow_id="a:b"), BAD),
    ("StartFlow", _start(flow_id="a$b"), BAD),
    ("StartFlow", _start(flow_id="x" * 1025), BAD),
    ("StartFlow", _start(flow_type="x" * 1025), BAD),
    ("StartFlow", _start(request_id="é" * 513), BAD),
    ("StartFlow", _step("x" * 1025), BAD),
    ("StartFlow", _start(flow_timeout_seconds=-1), BAD),
    ("StartFlow", _options(flow_start_delay_seconds=-1), BAD),
    ("StartFlow", _options(attributes=[pb.AttributeWrite()]), BAD),
    ("StartFlow", _options(retry_policy=pb.FlowRetryPolicy()), MISSING_FEATURE),
    ("StartFlow", _push(), MISSING_FEATURE),
    ("StartFlow", _step("A/B"), BAD),
    ("StartFlow", _step(heartbeat_timeout_seconds=9), BAD),
    ("StartFlow", _step(execute_timeout_seconds=-1), BAD),
    ("StartFlow", _step(execute_retry_policy=pb.RetryPolicy(maximum_attempts=-1)), BAD),
    ("StartFlow", _step(execute_failure_policy=PROCEED), BAD),
    (
        "StartFlow",
        _step(execute_failure_policy=PROCEED, execute_failure_proceed_step_type="A/B"),
        BAD,
    ),
    ("StartFlow", _handler(heartbeat_timeout_seconds=9), BAD),
    ("StartFlow", _handler(method_timeout_seconds=-1), BAD),
    ("StartFlow", _handler(failure_policy=PROCEED), BAD),
    ("StartFlow", _start(flow_id="open"), ("ALREADY_EXISTS", "FLOW_ALREADY_STARTED")),
    ("StartFlow", _start(flow_id="closed"), ("ALREADY_EXISTS", "FLOW_ALREADY_STARTED")),
    ("StopFlow", pb.StopFlowRequest(flow_id="none"), GONE),
    ("StopFlow", pb.StopFlowRequest(flow_id="closed"), GONE),
    ("StopFlow", pb.StopFlowRequest(flow_id="open", run_id="another"), GONE),
    ("StopFlow", pb.StopFlowRequest(flow_id="open", stop_type=cast(Any, 99)), BAD),
    ("InvokeRPC", pb.InvokeRPCRequest(flow_id="none", rpc_name="n"), GONE),
    ("InvokeRPC", pb.InvokeRPCRequest(flow_id="open"), BAD),
    ("InvokeRPC", pb.InvokeRPCRequest(flow_id="open", rpc_name="n", timeout_seconds=-1), BAD),
    ("InvokeRPC", pb.InvokeRPCRequest(flow_id="closed", rpc_name="n", is_transactional=True), GONE),
    (
        "InvokeRPC",
        pb.InvokeRPCRequest(flow_id="closed", rpc_name="n", lock_attribute_keys=["k"]),
        GONE,
    ),
    (
        "InvokeRPC",
        pb.InvokeRPCRequest(flow_id="open", rpc_name="n", lock_attribute_keys=["held", "k"]),
        ("ABORTED", "WORKER_API_ERROR"),
    ),
    ("SkipTimer", pb.SkipTimerRequest(flow_id="none"), GONE),
    ("SkipTimer", pb.SkipTimerRequest(flow_id="closed"), GONE),
    ("SkipTimer", pb.SkipTimerRequest(flow_id="open", step_execution_id="A-1"), BAD),
    ("UpdateFlowConfig", pb.UpdateFlowConfigRequest(flow_id="none"), GONE),
    ("UpdateFlowConfig", pb.UpdateFlowConfigRequest(flow_id="closed"), GONE),
    ("UpdateFlowConfig", pb.UpdateFlowConfigRequest(flow_id="open"), ("OK", "")),
    ("WaitForFlow", pb.WaitForFlowRequest(flow_id="none"), GONE),
    ("WaitForFlow", pb.WaitForFlowRequest(flow_id="open", wait_time_seconds=-1), BAD),
    ("WaitForFlow", pb.WaitForFlowRequest(flow_id="open", wait_time_seconds=1), STILL_NOTHING),
    ("WaitForStepCompletion", _completion("none", "1"), GONE),
    ("WaitForStepCompletion", _completion("closed", "1"), GONE),
    ("WaitForStepCompletion", _completion("open", "0"), BAD),
    ("WaitForStepCompletion", _completion("open", "one"), BAD),
    ("WaitForStepCompletion", _completion("open", "9" * 30), BAD),
    ("WaitForStepCompletion", _completion("open", "1", -1), BAD),
    ("WaitForStepCompletion", _completion("open", "1"), OUT_OF_TIME),
    ("WaitForAttribute", _match("none"), GONE),
    ("WaitForAttribute", _match("closed"), GONE),
    ("WaitForAttribute", _match("open", ""), BAD),
    ("WaitForAttribute", _match("open", operator=99), BAD),
    ("WaitForAttribute", _match("open", operator=pb.ATTRIBUTE_MATCH_OPERATOR_LESS_THAN), BAD),
    ("WaitForAttribute", _match("open"), OUT_OF_TIME),
    ("WaitForAttribute", _match("open", "Map/k"), OUT_OF_TIME),
    ("GetFlowSummary", pb.GetFlowSummaryRequest(flow_id=""), GONE),
    ("GetFlowState", pb.GetFlowStateRequest(flow_id="none"), GONE),
    ("GetHistoryEvents", pb.GetHistoryEventsRequest(flow_id="none"), GONE),
    ("GetHistoryEvents", pb.GetHistoryEventsRequest(flow_id="open", next_page_token=b"x"), BAD),
    ("GetHistoryEvents", pb.GetHistoryEventsRequest(flow_id="open", estimate_page_size=-1), BAD),
    ("SearchFlows", pb.SearchFlowsRequest(query="FlowType ="), BAD),
    ("SearchFlows", pb.SearchFlowsRequest(query="FlowType = 'T' OR Key = 1"), BAD),
    ("SearchFlows", pb.SearchFlowsRequest(page_size=-1), BAD),
    ("SearchFlows", pb.SearchFlowsRequest(next_page_token="x"), BAD),
    ("LoadBlobs", BLOB, ("NOT_FOUND", "UNCATEGORIZED")),
    ("WriteStream", pb.WriteStreamRequest(**STREAM), BAD),
    ("WriteStream", pb.WriteStreamRequest(**STREAM, source="me"), BAD),
    ("WriteStream", pb.WriteStreamRequest(flow_type="T", flow_id="f", source="me"), BAD),
    ("ReadStream", pb.ReadStreamRequest(**STREAM, resume_token="x"), BAD),
    ("ReadStream", pb.ReadStreamRequest(**STREAM, wait_time_seconds=-1), BAD),
    ("ReadStream", pb.ReadStreamRequest(**STREAM, wait_time_seconds=1), STILL_NOTHING),
    ("ListStreamMessages", pb.ListStreamMessagesRequest(**STREAM), BAD),
    ("ListStreamMessages", pb.ListStreamMessagesRequest(**STREAM, page_size=1001), BAD),
)


async def test_call__that_cannot_be_answered_is_told_why(flows: Any, engine: DevEngine) -> None:
    await flows.StartFlow(_start(flow_id="open"))
    await flows.StartFlow(_start(flow_id="closed"))
    await flows.StopFlow(pb.StopFlowRequest(flow_id="closed"))
    holder = flows.InvokeRPC(
        pb.InvokeRPCRequest(flow_id="open", rpc_name="n", lock_attribute_keys=["held"])
    )
    waiting = asyncio.ensure_future(holder)
    await until(lambda: engine.counts()["rpcs_open"] == 1)
    told = await asyncio.gather(*(_told(flows, name, request) for name, request, _ in CASES))
    calls = [f"{number} {name} {request}" for number, (name, request, _) in enumerate(CASES)]
    assert dict(zip(calls, told, strict=True)) == {
        call: expected for call, (_, _, expected) in zip(calls, CASES, strict=True)
    }
    waiting.cancel()


async def _told(flows: Any, name: str, request: Message) -> Told:
    """Code and sub-status of a call's end."""
    try:
        await getattr(flows, name)(request)
    except grpc.aio.AioRpcError as error:
        return error.code().name, _sub_status(error)
    return StatusCode.OK.name, ""


def _sub_status(error: grpc.aio.AioRpcError) -> str:
    metadata = dict(error.trailing_metadata())
    [detail] = status_pb2.Status.FromString(metadata["grpc-status-details-bin"]).details
    body = pb.ServiceErrorResponse()
    assert detail.Unpack(body)
    return pb.ErrorSubStatus.Name(body.sub_status).removeprefix("ERROR_SUB_STATUS_")


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe"], ids=["wire", "text"])
async def test_call__of_bytes_that_are_no_message_is_a_bad_argument(
    channel: grpc.aio.Channel, content: bytes
) -> None:
    service = pb.DESCRIPTOR.services_by_name["FlowService"].full_name
    start: Any = channel.unary_unary(f"/{service}/StartFlow")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await start(content)
    assert (refused.value.code().name, _sub_status(refused.value)) == BAD


@pytest.mark.parametrize(
    ("method", "feature"),
    [
        ("WorkerService/InvokeExecuteMethod", "push Workers (WorkerService)"),
        ("MatchingService/DispatchTask", "MatchingService"),
        ("InternalService/DumpFlowForContinueAsNew", "continue-as-new (InternalService)"),
    ],
)
async def test_call__of_a_service_that_is_absent_names_it(
    channel: grpc.aio.Channel, method: str, feature: str
) -> None:
    call: Any = channel.unary_unary(f"/{pb.DESCRIPTOR.package}.{method}")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(b"")
    assert (refused.value.code().name, _sub_status(refused.value)) == MISSING_FEATURE
    assert f"the dev engine does not implement {feature}" in str(refused.value.details())


async def test_call__of_absurd_size_is_refused_before_it_is_read(
    channel: grpc.aio.Channel, flows: Any
) -> None:
    service = pb.DESCRIPTOR.services_by_name["FlowService"].full_name
    start: Any = channel.unary_unary(f"/{service}/StartFlow")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await start(bytes((256 << 20) + 1))
    assert refused.value.code() is StatusCode.RESOURCE_EXHAUSTED
    assert await _told(flows, "StartFlow", _start()) == ("OK", "")


async def test_stream__of_bytes_that_are_no_frame_is_ended_and_its_task_goes_on(
    channel: grpc.aio.Channel, flows: Any, worker: WireWorker
) -> None:
    await flows.StartFlow(_step(skip_wait_for=True))
    service = pb.DESCRIPTOR.services_by_name["WorkerTaskService"].full_name
    garbling: Any = channel.stream_stream(f"/{service}/PollWorkerTask")()
    register = pb.PollWorkerTaskRegister(queue="T", app_worker_id="garbling")
    await garbling.write(pb.PollWorkerTaskRequest(register=register).SerializeToString())
    frames = [pb.PollWorkerTaskResponse.FromString(await garbling.read()) for _ in range(2)]
    assert [frame.WhichOneof("frame") for frame in frames] == ["registered", "task"]
    await garbling.write(b"\xff\xff\xff")
    assert await garbling.code() is not StatusCode.OK
    task = await (await worker.stream("T")).next_task()
    assert (task.execute.step_type, task.execute.context.attempt) == ("A", 2)
