"""The Steps of a session as its server tells them, with attempts and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from ..dex_server import DexServer
from ..server_history import history_events

_METHODS: Final = {
    "step_wait_for_completed": ("wait_for", False),
    "step_wait_for_failed": ("wait_for", True),
    "step_execute_completed": ("execute", False),
    "step_execute_failed": ("execute", True),
}


@frozen(kw_only=True)
class EndedStep:
    """One method of one Step that ended, for good. ``lasted`` is all its attempts together.

    ``error`` is what its last attempt said when all have failed.
    """

    step_type: str
    step_execution_id: str
    method: str
    attempts: int
    started_at: datetime
    lasted: timedelta
    error: str | None


async def read_steps(server: DexServer, session_id: str) -> tuple[EndedStep, ...]:
    """The Step methods of a session that have ended, in the order of their ends.

    Raises:
        AgentSessionError: the server does not answer, or knows no such session.
    """
    steps: list[EndedStep] = []
    async for event in history_events(server, session_id):
        kind = event.WhichOneof("payload")
        if kind in _METHODS:
            method, has_failed = _METHODS[kind]
            steps.append(_step(getattr(event, kind), method, has_failed=has_failed))
    return tuple(steps)


def _step(
    ended: pb.StepExecuteCompletedEvent | pb.StepExecuteFailedEvent,
    method: str,
    *,
    has_failed: bool,
) -> EndedStep:
    context = ended.context
    error = None
    if has_failed and isinstance(ended, pb.StepExecuteFailedEvent | pb.StepWaitForFailedEvent):
        error = ended.output.failure.details.original_worker_error_detail
    return EndedStep(
        step_type=context.step_type,
        step_execution_id=context.step_execution_id,
        method=method,
        attempts=context.final_attempt,
        started_at=context.started_time.ToDatetime(tzinfo=UTC),
        lasted=context.duration.ToTimedelta(),
        error=error,
    )
