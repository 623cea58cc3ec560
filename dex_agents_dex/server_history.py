"""A Flow's history as its server pages it. The SDK's client does not read it, so this calls the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc


async def history_events(server_address: str, flow_id: str) -> AsyncIterator[pb.FlowHistoryEvent]:
    """Every event of the Flow's current run, oldest first.

    Raises:
        grpc.RpcError: the server does not answer, or knows no such Flow.
    """
    options = (("grpc.max_receive_message_length", -1),)
    async with grpc.aio.insecure_channel(server_address, options=options) as channel:
        service = dex_pb2_grpc.FlowServiceStub(channel)  # type: ignore[no-untyped-call]  # generated code
        request = pb.GetHistoryEventsRequest(flow_id=flow_id)
        while True:
            page: pb.GetHistoryEventsResponse = await service.GetHistoryEvents(request)
            for event in page.events:
                yield event
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token
