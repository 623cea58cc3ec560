"""Tasks and results field by field, where the SDK would hide or never send what is meant here."""

from datetime import timedelta
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2

from dex_agents_dex.devengine import DevEngine
from tests.engine.wire_worker import WireWorker, execute_only

TYPE = "Wired"
LATER = timedelta(seconds=5)
GONE = pb.ChannelMessageDeletion(channel_name="Inbox", message_id="gone")


async def _start(flows: Any, options: pb.StepOptions) -> None:
    await flows.StartFlow(
        pb.StartFlowRequest(
            flow_id="f",
            flow_type=TYPE,
            request_id="r",
            start_step_type="Only",
            step_options=options,
        )
    )


async def test_server__says_what_it_speaks(flows: Any) -> None:
    info = await flows.GetServerInfo(empty_pb2.Empty())
    assert (
        info.server_engine,
        info.minimum_supported_protocol_version,
        info.current_protocol_version,
    ) == (pb.SERVER_ENGINE_ZD, 1, 2)
    assert (await flows.HealthCheck(empty_pb2.Empty())).condition == "OK"


async def test_retry__keeps_the_instant_of_the_first_attempt_and_of_the_flow(
    flows: Any, worker: WireWorker, engine: DevEngine
) -> None:
    await _start(flows, execute_only())
    stream = await worker.stream(TYPE)
    first = (await stream.next_task()).execute.context
    error = pb.WorkerErrorResponse(detail="no luck", retry_after_seconds=LATER.seconds)
    await stream.send(
        task_frame=pb.PollWorkerTaskFrame(task_id=stream.task.task_id, worker_error=error)
    )
    engine.skip_time(LATER)
    second = (await stream.next_task()).execute.context
    assert (first.attempt, second.attempt) == (1, 2)
    assert 0 < first.flow_started_timestamp <= first.first_attempt_timestamp
    for field in ("first_attempt_timestamp", "flow_started_timestamp", "step_execution_id"):
        assert getattr(second, field) == getattr(first, field)


async def test_history__of_long_errors_comes_in_pages_that_a_client_takes(
    flows: Any, worker: WireWorker
) -> None:
    options = execute_only(attempts=1)
    for _ in range(5):
        inner, options = options, execute_only(attempts=1)
        options.execute_failure_policy = pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP
        options.execute_failure_proceed_step_type = "Only"
        options.execute_failure_proceed_step_options.CopyFrom(inner)
    await _start(flows, options)
    stream = await worker.stream(TYPE)
    for _ in range(6):
        await stream.next_task()
        await stream.fail("no luck " * 60_000)
    await flows.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", wait_time_seconds=20))
    pages: list[list[int]] = []
    token = b""
    while not pages or token:
        page = await flows.GetHistoryEvents(
            pb.GetHistoryEventsRequest(flow_id="f", next_page_token=token)
        )
        pages.append([event.event_id for event in page.events])
        token = page.next_page_token
    assert pages == [[1, 2, 3, 4, 5], [6, 7, 8]]


async def test_task__repeats_what_it_was_asked_to_load(flows: Any, worker: WireWorker) -> None:
    options = execute_only()
    options.execute_load_attribute_map_instances.extend(["Map/", "Other/k"])
    options.execute_load_channel_names.append("Inbox")
    options.execute_load_channel_map_instances.extend(["Box/", "Box/1"])
    await _start(flows, options)
    task = (await (await worker.stream(TYPE)).next_task()).execute
    assert list(task.loaded_attribute_map_instances) == ["Map/", "Other/k"]
    assert list(task.loaded_channel_names) == ["Inbox"]
    assert list(task.loaded_channel_map_instances) == ["Box/", "Box/1"]


async def test_step__may_delete_a_message_that_is_gone(flows: Any, worker: WireWorker) -> None:
    await _start(flows, execute_only(attempts=1))
    stream = await worker.stream(TYPE)
    await stream.next_task()
    result = pb.InvokeExecuteMethodResponse(delete_from_channel=[GONE])
    close = result.step_decision.close_decision
    close.close_decision_type = pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE
    await stream.execute(pb.InvokeExecuteMethodOutput(result=result))
    ended = await flows.WaitForFlow(pb.WaitForFlowRequest(flow_id="f", wait_time_seconds=20))
    assert ended.flow_status == pb.FLOW_STATUS_COMPLETED


@pytest.mark.parametrize(
    ("is_transactional", "response", "expected"),
    [
        (False, pb.InvokeWorkerRPCResponse(delete_from_channel=[GONE]), "OK"),
        (True, pb.InvokeWorkerRPCResponse(delete_from_channel=[GONE]), "FAILED_PRECONDITION"),
        (
            False,
            pb.InvokeWorkerRPCResponse(
                step_decision=pb.StepDecision(
                    close_decision=pb.CloseDecision(
                        close_decision_type=pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE
                    )
                )
            ),
            "FAILED_PRECONDITION",
        ),
    ],
    ids=["delete", "delete in a transaction", "close"],
)
async def test_rpc__is_refused_what_none_may_do(
    flows: Any,
    worker: WireWorker,
    is_transactional: bool,
    response: pb.InvokeWorkerRPCResponse,
    expected: str,
) -> None:
    await flows.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type=TYPE, request_id="r"))
    stream = await worker.stream(TYPE)
    call = flows.InvokeRPC(
        pb.InvokeRPCRequest(flow_id="f", rpc_name="ask", is_transactional=is_transactional)
    )
    task = await stream.next_task()
    await stream.send(task_frame=pb.PollWorkerTaskFrame(task_id=task.task_id, rpc=response))
    assert (await call.code()).name == expected
    summary = await flows.GetFlowSummary(pb.GetFlowSummaryRequest(flow_id="f"))
    assert summary.flow_status == pb.FLOW_STATUS_RUNNING


async def test_stop__by_a_client_without_a_reason_says_who_failed_the_flow(flows: Any) -> None:
    await flows.StartFlow(pb.StartFlowRequest(flow_id="f", flow_type=TYPE, request_id="r"))
    await flows.StopFlow(pb.StopFlowRequest(flow_id="f", stop_type=pb.STOP_TYPE_FAIL))
    ended = await flows.WaitForFlow(pb.WaitForFlowRequest(flow_id="f"))
    assert (ended.flow_status, ended.error_type, ended.error_message) == (
        pb.FLOW_STATUS_FAILED,
        pb.FLOW_ERROR_TYPE_CLIENT_API_FAILING_FLOW,
        "fail by client",
    )


async def test_blobs__are_given_to_none_but_their_flow(flows: Any, worker: WireWorker) -> None:
    await _start(flows, execute_only())
    stream = await worker.stream(TYPE)
    await stream.next_task()
    large = pb.Value(string_value="x" * 100_000)
    result = pb.InvokeExecuteMethodResponse(
        upsert_attributes=[pb.AttributeWrite(key="Text", value=large)]
    )
    result.step_decision.next_steps.add(step_type="Next", step_options=execute_only())
    await stream.execute(pb.InvokeExecuteMethodOutput(result=result))
    [attribute] = (await stream.next_task()).execute.attributes
    blob_id = attribute.value.internal_blob_id_for_string_value
    entry = pb.LoadBlobRequestEntry(flow_id="f", blob_value=attribute.value)
    loaded = await flows.LoadBlobs(pb.LoadBlobsRequest(entries=[entry]))
    assert dict(loaded.values) == {blob_id: large}
    entry.flow_id = "another"
    refused = flows.LoadBlobs(pb.LoadBlobsRequest(entries=[entry]))
    assert await refused.code() is grpc.StatusCode.NOT_FOUND
