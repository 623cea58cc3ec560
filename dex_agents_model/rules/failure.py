"""How a turn ends without an answer, and what the next turn is told of it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ..calls import AgentToolCall
from ..decision import (
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    SetState,
    StepDecision,
    Write,
)
from ..effects import AttemptsExhausted
from ..errors import StateCorrupt
from ..notes import build_turn_failure_note
from ..records import RunningModel, TurnFailed, WaitingForUserMessage
from ..steps import AwaitUserMessage, RecordTurnFailure
from ..text import clean_text, shorten
from ..views import TurnRecordsView

_ERROR_BYTES: Final = 8192


def record_turn_failure(
    step: RecordTurnFailure, view: TurnRecordsView, on: AttemptsExhausted, now: datetime
) -> StepDecision:
    """The model Step was given up: end the turn, and wait for the user."""
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"{step.turn} lost its model call in the state {view.state}")
    error = on.detail or on.error_type or "the model call was given up without an error"
    return fail_turn(view.state, view.tool_calls, error)


def fail_turn(
    state: RunningModel, tool_calls: tuple[AgentToolCall, ...], error: str
) -> StepDecision:
    """End the turn as failed; when a tool may have run, a note keeps the next turn from running it again."""
    note = build_turn_failure_note(tool_calls)
    sequence = state.message_count + 1
    noted: tuple[Write, ...] = ()
    if note is not None:
        noted = (AppendUserMessage(sequence, state.active_turn_id, note),)
    idle = WaitingForUserMessage(
        turn_count=state.turn_count,
        message_count=state.message_count + len(noted),
        last_turn=TurnFailed(shorten(clean_text(error), _ERROR_BYTES)),
    )
    return StepDecision(
        commit=Commit(writes=(SetState(idle), *noted, ClearTurn())),
        next=GoTo((AwaitUserMessage(),)),
    )
