"""The FlowService's calls that look at Flows without waiting: summaries, state, history, search."""

from __future__ import annotations

from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import Refusal, invalid
from dex_agents_dex.devengine.core.inspection import flow_state
from dex_agents_dex.devengine.core.instants import to_microseconds
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.values import blob_id_of
from dex_agents_dex.devengine.loading import load_blobs, load_events
from dex_agents_dex.devengine.searching import LARGEST_PAGE, parse_query, search_runs
from dex_agents_dex.devengine.server.calls import Calls
from dex_agents_dex.devengine.server.refusals import answers_refusals

_LARGEST_EVENT_PAGE: Final = 1000
_DIGITS_OF_INT64: Final = 19


class InspectionCalls(Calls):
    @answers_refusals
    async def GetFlowSummary(self, request: pb.GetFlowSummaryRequest) -> pb.GetFlowSummaryResponse:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        await self._hub.store.barrier()
        return _summary(run)

    @answers_refusals
    async def GetFlowState(self, request: pb.GetFlowStateRequest) -> pb.GetFlowStateResponse:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        state = flow_state(run, await self._hub.library.all_attributes(run))
        await self._hub.store.barrier()
        return self.sendable(state, f"the state of Flow {run.flow_id!r}")

    @answers_refusals
    async def GetHistoryEvents(
        self, request: pb.GetHistoryEventsRequest
    ) -> pb.GetHistoryEventsResponse:
        run = await self._hub.library.find(request.flow_id, request.run_id)
        first = _first_event(request)
        size = _page_size(request.estimate_page_size, _LARGEST_EVENT_PAGE)
        room_bytes = self._hub.settings.frame_limit_bytes
        events = await self._hub.store.read(
            lambda db: load_events(db, run.key, first, size, room_bytes)
        )
        page = [pb.FlowHistoryEvent.FromString(event) for event in events]
        following = page[-1].event_id + 1 if page else first
        token = str(following).encode() if following < run.next_event else b""
        answer = pb.GetHistoryEventsResponse(
            events=page, next_page_token=token, next_internal_event_id=following
        )
        return self.sendable(answer, f"event {first} of Flow {run.flow_id!r}")

    @answers_refusals
    async def SearchFlows(self, request: pb.SearchFlowsRequest) -> pb.SearchFlowsResponse:
        query = parse_query(request.query)
        size = _page_size(request.page_size, LARGEST_PAGE)
        before = _page_token(request.next_page_token)
        room_bytes = self._hub.settings.frame_limit_bytes
        entries, token = await self._hub.store.read(
            lambda db: search_runs(db, query, size, room_bytes, before)
        )
        page = pb.SearchFlowsResponse(flow_runs=entries, next_page_token=token)
        return self.sendable(page, f"a page of {len(entries)} Flows")

    @answers_refusals
    async def LoadBlobs(self, request: pb.LoadBlobsRequest) -> pb.LoadBlobsResponse:
        ids = [(entry.flow_id, blob_id_of(entry.blob_value)) for entry in request.entries]
        found = await self._hub.store.read(lambda db: load_blobs(db, ids))
        for flow_id, blob_id in ids:
            if blob_id not in found:
                raise Refusal("NOT_FOUND", f"Flow {flow_id!r} has no blob {blob_id!r}")
        blobs = pb.LoadBlobsResponse(
            values={blob_id: pb.Value.FromString(content) for blob_id, content in found.items()}
        )
        return self.sendable(blobs, f"{len(found)} blobs at once")


def _page_size(requested: int, largest: int) -> int:
    if requested < 0:
        raise invalid("a page size must not be negative")
    return min(requested or largest, largest)


def _page_token(token: str | bytes) -> int | None:
    if not token:
        return None
    if not (token.isascii() and token.isdigit() and len(token) < _DIGITS_OF_INT64):
        raise invalid("not a page token of this call")
    return int(token)


def _first_event(request: pb.GetHistoryEventsRequest) -> int:
    after = _page_token(request.next_page_token)
    return max(1, request.start_internal_event_id) if after is None else after


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
