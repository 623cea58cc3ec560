"""A session's past as the server tells it: which Step ended, how, and at which attempt."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ..dex_server import DexServer
from ..server_history import ended_steps


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
    ended = await ended_steps(DexServer.at(server_address, token_file), flow_id)
    return tuple(
        StepHistoryEntry(step.event_type, step.step_type, step.step_execution_id, step.attempts)
        for step in ended
    )
