"""Promises about what the model is given within a turn."""

from __future__ import annotations

from collections.abc import Iterator

from ...effects import CallModel, ToolCallsRequested
from ...steps import ResumeTurn
from ..actions import Change, Committed, Ran
from ..ledger import name_of_message
from ..stored import run_state_in, tool_calls_in


def the_model_is_given_the_whole_turn(change: Change) -> Iterator[str]:
    """Each model call is given the run state that the one before left, and every tool call with its result."""
    cause = change.cause
    if isinstance(cause, Committed) and isinstance(cause.on, ToolCallsRequested):
        goes_on = any(isinstance(step, ResumeTurn) for step in cause.decided.next)
        if goes_on and run_state_in(change.after.records) != cause.on.framework_run_state:
            yield "the run state that the model call left is not what is stored"
    for effect in _model_calls(change):
        if effect.run_state != run_state_in(change.before.records):
            yield f"the model is given the run state {effect.run_state!r:.80}, and another is stored"
        stored = tool_calls_in(change.before.records)
        if effect.tool_calls != stored:
            given = [(each.tool_call_id, each.status) for each in effect.tool_calls]
            known = [(each.tool_call_id, each.status) for each in stored]
            yield f"the model is given the tool calls {given}, and these are stored: {known}"


def steering_reaches_the_model_in_order(change: Change) -> Iterator[str]:
    """Each model call is given what users said to the turn since the call before: all of it, in order."""
    said = list(change.before.ledger.unheard)
    for effect in _model_calls(change):
        given = [name_of_message(message) for message in effect.steering_messages]
        if given != said:
            yield f"the model is given the steering {given}, and users said {said}"


def _model_calls(change: Change) -> Iterator[CallModel]:
    if isinstance(change.cause, Ran):
        for effect in change.cause.attempt.ran:
            if isinstance(effect, CallModel):
                yield effect
