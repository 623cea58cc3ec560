"""A session's past as the server tells it: which Step ended, how, and at which attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from ..dex_server import DexServer
from ..server_history import history_events

WAIT_FOR_COMPLETED_EVENT: Final = "step_wait_for_completed"
"""A Step's wait_for has returned."""
WAIT_FOR_FAILED_EVENT: Final = "step_wait_for_failed"
"""A Step's wait_for has failed at its last attempt."""
EXECUTE_COMPLETED_EVENT: Final = "step_execute_completed"
"""A Step's execute has committed."""
EXECUTE_FAILED_EVENT: Final = "step_execute_failed"
"""A Step's execute has failed at its last attempt."""

_STEP_EVENTS: Final = (
    WAIT_FOR_COMPLETED_EVENT,
    WAIT_FOR_FAILED_EVENT,
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
)


@frozen
class StepHistoryEntry:
    """One method of one Step that ended, for good. ``final_attempt`` counts from 1."""

    event_type: str
    step_type: str
    step_execution_id: str
    final_attempt: int


async def read_step_history(
    server_address: str, flow_id: str, *, token_file: str | Path | None = None
) -> tuple[StepHistoryEntry, ...]:
    """Every Step method of the Flow's current run that has ended, in the order of its ends.

    Without ``token_file`` it takes the token from the file that DEX_SERVER_TOKEN_FILE names.

    Raises:
        AccessDenied: the token file cannot be used, or the server takes another token.
        EngineUnavailable: the server does not answer.
        SessionNotFound: it knows no such Flow.
    """
    server = DexServer.at(server_address, token_file)
    return tuple(
        [
            _entry(event)
            async for event in history_events(server, flow_id)
            if event.WhichOneof("payload") in _STEP_EVENTS
        ]
    )


def _entry(event: pb.FlowHistoryEvent) -> StepHistoryEntry:
    event_type = event.WhichOneof("payload")
    assert event_type is not None
    context: pb.StepMethodEventContext = getattr(event, event_type).context
    return StepHistoryEntry(
        event_type, context.step_type, context.step_execution_id, context.final_attempt
    )
