"""The FlowService: what clients ask of Flows.

Each method is a command of the core, a wait for its durability, and an answer.
"""

from __future__ import annotations

import socket
from typing import Final

from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc
from google.protobuf import empty_pb2

from dex_agents_dex.devengine.core.errors import Refusal, invalid, unimplemented
from dex_agents_dex.devengine.core.instants import to_microseconds
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.loading import load_blobs, load_events
from dex_agents_dex.devengine.server.hub import Hub
from dex_agents_dex.devengine.server.message_log import StreamKey
from dex_agents_dex.devengine.server.refusals import answers_refusals

SERVER_VERSION: Final = "dex-agents-devengine"
MINIMUM_PROTOCOL: Final = 1
# Version 3 promises hard-deleted Attributes, which this engine does not have.
CURRENT_PROTOCOL: Final = 2
_LONGEST_POLL_SECONDS: Final = 60.0
_LARGEST_EVENT_PAGE: Final = 1000


class FlowService(dex_pb2_grpc.FlowServiceServicer):
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    # --- the server ---------------------------------------------------------------------------

    @answers_refusals
    async def GetServerInfo(self, _: empty_pb2.Empty) -> pb.ServerInfo:
        return pb.ServerInfo(
            server_version=SERVER_VERSION,
            minimum_supported_protocol_version=MINIMUM_PROTOCOL,
            current_protocol_version=CURRENT_PROTOCOL,
            server_engine=pb.SERVER_ENGINE_ZD,
        )

    @answers_refusals
    async def HealthCheck(self, _: empty_pb2.Empty) -> pb.HealthInfo:
        return pb.HealthInfo(condition="OK", hostname=socket.gethostname())

    @answers_refusals
    async def SyncAttributeIndexes(
        self, _: pb.SyncAttributeIndexRequest
    ) -> pb.SyncAttributeIndexResponse:
        return pb.SyncAttributeIndexResponse()

    # --- life of a Flow -----------------------------------------------------------------------

    @answers_refusals
    async def StartFlow(self, request: pb.StartFlowRequest) -> pb.StartFlowResponse:
        tx = self._hub.begin()
        run = self._hub.core.start_flow(tx, request)
        await self._hub.committed(tx)
        return pb.StartFlowResponse(run_id=run.run_id)

    @answers_refusals
    async def StopFlow(self, request: pb.StopFlowRequest) -> empty_pb2.Empty:
        tx = self._hub.begin()
        self._hub.core.stop_flow(tx, request)
        await self._hub.committed(tx)
        return empty_pb2.Empty()

    @answers_refusals
    async def InvokeRPC(self, request: pb.InvokeRPCRequest) -> pb.InvokeRPCResponse:
        return await self._hub.invoke_rpc(request)

    @answers_refusals
    async def UpdateFlowConfig(self, request: pb.UpdateFlowConfigRequest) -> empty_pb2.Empty:
        self._hub.core.find_running(request.flow_id, request.run_id)
        return empty_pb2.Empty()

    # --- what became of it --------------------------------------------------------------------

    @answers_refusals
    async def WaitForFlow(self, request: pb.WaitForFlowRequest) -> pb.FlowResult:
        run = self._hub.core.find_run(request.flow_id, request.run_id)
        loop_time = self._hub.loop_time
        end = loop_time() + _poll_seconds(request.wait_time_seconds)
        while run.is_running:
            remaining = end - loop_time()
            if remaining <= 0 or not await self._hub.waiters.wait(run.key, remaining):
                raise _long_poll_over(f"Flow {run.flow_id!r} is still running")
        await self._hub.store.barrier()
        return pb.FlowResult(
            flow_status=run.status,
            results=run.outputs if request.needs_results else (),
            error_type=run.error_type,
            error_message=run.error_message,
        )

    @answers_refusals
    async def GetFlowSummary(self, request: pb.GetFlowSummaryRequest) -> pb.GetFlowSummaryResponse:
        run = self._hub.core.find_run(request.flow_id, request.run_id)
        await self._hub.store.barrier()
        return _summary(run)

    @answers_refusals
    async def GetHistoryEvents(
        self, request: pb.GetHistoryEventsRequest
    ) -> pb.GetHistoryEventsResponse:
        run = self._hub.core.find_run(request.flow_id, request.run_id)
        first = _first_event(request)
        size = min(request.estimate_page_size or _LARGEST_EVENT_PAGE, _LARGEST_EVENT_PAGE)
        events = await self._hub.store.read(lambda db: load_events(db, run.key, first, size + 1))
        page = [pb.FlowHistoryEvent.FromString(event) for event in events[:size]]
        following = page[-1].event_id + 1 if page else first
        token = str(following).encode() if len(events) > size else b""
        return pb.GetHistoryEventsResponse(
            events=page, next_page_token=token, next_internal_event_id=following
        )

    @answers_refusals
    async def LoadBlobs(self, request: pb.LoadBlobsRequest) -> pb.LoadBlobsResponse:
        ids = [
            (
                entry.flow_id,
                entry.blob_value.internal_blob_id_for_string_value
                or entry.blob_value.internal_blob_id_for_obj_value,
            )
            for entry in request.entries
        ]
        found = await self._hub.store.read(lambda db: load_blobs(db, ids))
        for flow_id, blob_id in ids:
            if blob_id not in found:
                raise Refusal("NOT_FOUND", f"Flow {flow_id!r} has no blob {blob_id!r}")
        return pb.LoadBlobsResponse(
            values={blob_id: pb.Value.FromString(content) for blob_id, content in found.items()}
        )

    # --- Streams ------------------------------------------------------------------------------

    @answers_refusals
    async def WriteStream(self, request: pb.WriteStreamRequest) -> empty_pb2.Empty:
        if not request.source:
            raise invalid("WriteStream needs a source")
        self._hub.append_to_stream(
            _stream_key(request), request.value, request.source, request.stream_capacity_bytes
        )
        return empty_pb2.Empty()

    @answers_refusals
    async def ReadStream(self, request: pb.ReadStreamRequest) -> pb.ReadStreamResponse:
        key = _stream_key(request)
        end = self._hub.loop_time() + _poll_seconds(request.wait_time_seconds)
        while (message := self._hub.log.after(key, request.resume_token)) is None:
            remaining = end - self._hub.loop_time()
            if remaining <= 0 or not await self._hub.waiters.wait(key, remaining):
                raise _long_poll_over(f"nothing new in Stream {request.stream_name!r}")
        return pb.ReadStreamResponse(message=message)

    @answers_refusals
    async def ListStreamMessages(
        self, request: pb.ListStreamMessagesRequest
    ) -> pb.ListStreamMessagesResponse:
        messages, token = self._hub.log.page_before(
            _stream_key(request), request.before_page_token, request.page_size
        )
        return pb.ListStreamMessagesResponse(messages=messages, next_page_token=token)


def _poll_seconds(requested: int) -> float:
    if requested < 0:
        raise invalid("a wait time must not be negative")
    return min(requested or _LONGEST_POLL_SECONDS, _LONGEST_POLL_SECONDS)


def _long_poll_over(detail: str) -> Refusal:
    return Refusal("DEADLINE_EXCEEDED", detail, pb.ERROR_SUB_STATUS_LONG_POLL_TIME_OUT)


def _first_event(request: pb.GetHistoryEventsRequest) -> int:
    token = request.next_page_token
    if token and not token.isdigit():
        raise invalid("not a page token of GetHistoryEvents")
    return int(token) if token else max(1, request.start_internal_event_id)


def _stream_key(
    request: pb.WriteStreamRequest | pb.ReadStreamRequest | pb.ListStreamMessagesRequest,
) -> StreamKey:
    if not (request.flow_id and request.flow_type and request.stream_name):
        raise invalid("a Stream is named by flow_id, flow_type and stream_name")
    return StreamKey(request.flow_type, request.stream_name, request.flow_id)


def _summary(run: Run) -> pb.GetFlowSummaryResponse:
    response = pb.GetFlowSummaryResponse(
        flow_execution_id=pb.FlowExecutionID(flow_id=run.flow_id, run_id=run.run_id),
        first_run_id=run.run_id,
        request_id=run.request_id,
        flow_type=run.flow_type,
        flow_status=run.status,
        run_attempt=1,
    )
    response.start_time.FromMicroseconds(to_microseconds(run.started_at))
    if run.closed_at is not None:
        response.close_time.FromMicroseconds(to_microseconds(run.closed_at))
    return response


def _unimplemented(name: str, feature: str) -> None:
    async def refuse(self: FlowService, _: object) -> empty_pb2.Empty:
        raise unimplemented(feature)

    refuse.__name__ = name
    setattr(FlowService, name, answers_refusals(refuse))


for _name, _feature in {
    "PublishToChannel": "PublishToChannel: publish from a Step or an RPC",
    "GetChannelMessages": "GetChannelMessages: load the Channel in a Step or an RPC",
    "DeleteChannelMessage": "DeleteChannelMessage: delete in a Step or an RPC",
    "GetAttributes": "GetAttributes: read in a Step or an RPC",
    "SetAttributes": "SetAttributes: write in a Step or an RPC",
    "SearchFlows": "SearchFlows",
    "WaitForHistoryEvent": "WaitForHistoryEvent",
    "GetFlowState": "GetFlowState",
    "ResetFlow": "time travel (ResetFlow)",
    "SkipTimer": "SkipTimer",
    "WaitForStepCompletion": "WaitForStepCompletion",
    "WaitForAttribute": "WaitForAttribute",
    "TriggerContinueAsNew": "continue-as-new",
}.items():
    _unimplemented(_name, _feature)
