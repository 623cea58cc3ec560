"""Promises about what the model is told of a long session."""

from __future__ import annotations

from collections.abc import Iterator

from ...decision import SetSummary
from ...effects import CallModel
from ..actions import Change, Ran
from ..stored import messages_in, state_in, summary_in


def the_model_is_told_everything_once(change: Change) -> Iterator[str]:
    """The summary, when there is one, and the messages behind it are the whole history, with no gap and no overlap."""
    if not isinstance(change.cause, Ran):
        return
    state, summary = state_in(change.before.records), summary_in(change.before.records)
    for effect in change.cause.attempt.ran:
        if not isinstance(effect, CallModel) or state is None:
            continue
        told = [message.sequence for message in effect.messages]
        first = 1 if summary is None else summary.through_sequence + 1
        if told != list(range(first, state.message_count + 1)):
            yield f"the model is told the messages {told}, of {first} to {state.message_count}"
        if effect.summary != (None if summary is None else summary.text):
            yield f"the model is told the summary {effect.summary!r}, and {summary} is stored"


def a_summary_ends_between_turns(change: Change) -> Iterator[str]:
    """A summary stands for whole turns, and never for the running one."""
    cause = change.commit(SetSummary)
    if cause is None:
        return
    state = state_in(change.after.records)
    turns = {each.sequence: each.turn_id for each in messages_in(change.after.records)}
    for write in cause.decided.writes:
        if not isinstance(write, SetSummary):
            continue
        last = write.summary.through_sequence
        if turns.get(last) is not None and turns.get(last) == turns.get(last + 1):
            yield f"the summary through message {last} cuts {turns[last]} in two"
        if state is not None and turns.get(last) == state.active_turn_id:
            yield f"the summary through message {last} stands for the running turn"
