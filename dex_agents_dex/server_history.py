"""A Flow's history as its server pages it. The SDK's client does not read it, so this calls the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
from dex.dexpb import dex_pb2 as pb

from .dex_server import DexServer, words_of
from .errors import AgentSessionError, SessionNotFound


async def history_events(server: DexServer, flow_id: str) -> AsyncIterator[pb.FlowHistoryEvent]:
    """Every event of the Flow's current run, oldest first.

    Raises:
        EngineUnavailable: the server does not answer.
        AccessDenied: it lets nobody in with this token.
        SessionNotFound: it knows no such Flow.
        AgentSessionError: it does not tell.
    """
    async with server.flow_service() as service:
        request = pb.GetHistoryEventsRequest(flow_id=flow_id)
        while True:
            try:
                page: pb.GetHistoryEventsResponse = await service.GetHistoryEvents(
                    request, metadata=await server.metadata()
                )
            except grpc.aio.AioRpcError as error:
                raise server.trouble(error) or _refusal(error, flow_id) from error
            for event in page.events:
                yield event
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token


def _refusal(error: grpc.aio.AioRpcError, flow_id: str) -> AgentSessionError:
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return SessionNotFound(f"there is no session {flow_id!r}")
    return AgentSessionError(
        f"the server does not tell the history of {flow_id!r}: {words_of(error)}"
    )
