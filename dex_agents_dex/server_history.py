"""A Flow's history as its server pages it. The SDK's client does not read it, so this calls the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from dex.dexpb import dex_pb2 as pb

from .dex_server import DexServer


async def history_events(server: DexServer, flow_id: str) -> AsyncIterator[pb.FlowHistoryEvent]:
    """Every event of the Flow's current run, oldest first.

    Raises:
        grpc.RpcError: the server does not answer, lets nobody in, or knows no such Flow.
    """
    async with server.flow_service() as service:
        request = pb.GetHistoryEventsRequest(flow_id=flow_id)
        while True:
            page: pb.GetHistoryEventsResponse = await service.GetHistoryEvents(
                request, metadata=server.metadata
            )
            for event in page.events:
                yield event
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token
