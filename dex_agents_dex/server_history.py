"""A Flow's history as its server pages it. The SDK's client does not read it, so this calls the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import grpc
from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_model.events import StepMethod

from .dex_server import DexServer, words_of
from .errors import AgentSessionError, SessionNotFound

WAIT_FOR_COMPLETED_EVENT: Final = "step_wait_for_completed"
"""A Step's wait_for has returned."""
WAIT_FOR_FAILED_EVENT: Final = "step_wait_for_failed"
"""A Step's wait_for has failed at its last attempt."""
EXECUTE_COMPLETED_EVENT: Final = "step_execute_completed"
"""A Step's execute has committed."""
EXECUTE_FAILED_EVENT: Final = "step_execute_failed"
"""A Step's execute has failed at its last attempt."""

_METHODS: Final[Mapping[str, StepMethod]] = MappingProxyType(
    {
        WAIT_FOR_COMPLETED_EVENT: StepMethod.WAIT_FOR,
        WAIT_FOR_FAILED_EVENT: StepMethod.WAIT_FOR,
        EXECUTE_COMPLETED_EVENT: StepMethod.EXECUTE,
        EXECUTE_FAILED_EVENT: StepMethod.EXECUTE,
    }
)


@frozen(kw_only=True)
class EndedStep:
    """One method of one Step that ended, for good. ``lasted`` is all its attempts together.

    ``error`` is what its last attempt said when all have failed.
    """

    event_type: str
    step_type: str
    step_execution_id: str
    method: StepMethod
    attempts: int
    started_at: datetime
    lasted: timedelta
    error: str | None


async def ended_steps(server: DexServer, flow_id: str) -> tuple[EndedStep, ...]:
    """Every Step method of the Flow's current run that has ended, in the order of its ends.

    Raises:
        EngineUnavailable: the server does not answer.
        AccessDenied: it lets nobody in with this token.
        SessionNotFound: it knows no such Flow.
        AgentSessionError: it does not tell.
    """
    found: list[EndedStep] = []
    async for event in history_events(server, flow_id):
        event_type = event.WhichOneof("payload")
        if event_type in _METHODS:
            found.append(_ended_step(event_type, getattr(event, event_type)))
    return tuple(found)


async def history_events(server: DexServer, flow_id: str) -> AsyncIterator[pb.FlowHistoryEvent]:
    """Every event of the Flow's current run, oldest first.

    Raises:
        AgentSessionError: as `ended_steps`.
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


def _ended_step(
    event_type: str,
    ended: pb.StepWaitForCompletedEvent
    | pb.StepWaitForFailedEvent
    | pb.StepExecuteCompletedEvent
    | pb.StepExecuteFailedEvent,
) -> EndedStep:
    context, error = ended.context, None
    if isinstance(ended, pb.StepWaitForFailedEvent | pb.StepExecuteFailedEvent):
        error = ended.output.failure.details.original_worker_error_detail
    return EndedStep(
        event_type=event_type,
        step_type=context.step_type,
        step_execution_id=context.step_execution_id,
        method=_METHODS[event_type],
        attempts=context.final_attempt,
        started_at=context.started_time.ToDatetime(tzinfo=UTC),
        lasted=context.duration.ToTimedelta(),
        error=error,
    )


def _refusal(error: grpc.aio.AioRpcError, flow_id: str) -> AgentSessionError:
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return SessionNotFound(f"there is no session {flow_id!r}")
    return AgentSessionError(
        f"the server does not tell the history of {flow_id!r}: {words_of(error)}"
    )
