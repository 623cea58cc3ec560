"""How a session stays within the model's context window: earlier turns are summarised, old tool results shortened."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from attrs import evolve

from ..calls import AgentToolCall, Succeeded
from ..decision import (
    Commit,
    DropMessages,
    GoTo,
    SetState,
    SetSummary,
    SetUsage,
    StepDecision,
    Write,
)
from ..effects import AttemptsExhausted, Entered, HistorySummarized, Summarize
from ..errors import ContractBroken, StateCorrupt
from ..events import HistoryCompacted, HistoryCompactionFailed, TurnEvent, UsageRecorded
from ..ids import ToolCallId
from ..notes import SHORTENED_RESULT_BYTES
from ..policy import CompactionPolicy
from ..records import AgentMessage, HistoryRange, HistorySummary, RunningModel
from ..steps import CompactHistory, RecordCompactionFailure, RunModel
from ..text import clean_text, error_text, keep_bytes, size_bytes
from ..views import CompactionView, SessionView, TurnView

BYTES_PER_TOKEN: Final = 3


def unsummarised(view: TurnView | CompactionView) -> tuple[AgentMessage, ...]:
    """The stored messages that no summary stands for."""
    behind = 0 if view.summary is None else view.summary.through_sequence
    return tuple(message for message in view.messages if message.sequence > behind)


def boundary_to_compact(view: TurnView, policy: CompactionPolicy) -> int | None:
    """The last message that a summary should stand for; None while the input is small enough.

    Only whole turns before the running one are summarised, and of those not the newest.
    """
    if estimate_tokens(view, policy) <= policy.trigger_tokens:
        return None
    left_bytes = policy.keep_recent_tokens * BYTES_PER_TOKEN
    earlier = [m for m in unsummarised(view) if view.has_ended(m.turn_id)]
    for turn in reversed(list(dict.fromkeys(m.turn_id for m in earlier))):
        own = [message for message in earlier if message.turn_id == turn]
        left_bytes -= _bytes(own)
        if left_bytes < 0:
            return own[-1].sequence
    return None


def results_to_shorten(view: TurnView, policy: CompactionPolicy) -> tuple[ToolCallId, ...] | None:
    """The turn's oldest tool results, as many as must be shortened to fit; None when that is not enough."""
    over_bytes = (estimate_tokens(view, policy) - policy.context_window_tokens) * BYTES_PER_TOKEN
    shortened: list[ToolCallId] = []
    for record in view.tool_calls:
        if over_bytes <= 0:
            break
        saved = _result_bytes(record) - SHORTENED_RESULT_BYTES
        if saved > 0:
            shortened.append(record.tool_call_id)
            over_bytes -= saved
    return tuple(shortened) if over_bytes <= 0 else None


def estimate_tokens(view: TurnView, policy: CompactionPolicy) -> int:
    """How large the next model call's input is, about: three bytes a token, and what is reserved."""
    summary = 0 if view.summary is None else size_bytes(view.summary.text)
    run_state = _run_state_bytes(view)
    newest = max((record.call.model_call for record in view.tool_calls), default=0)
    # The results of earlier model calls of the turn stand in its run state already.
    results = sum(_result_bytes(r) for r in view.tool_calls if r.call.model_call == newest)
    # What lies beside a text is counted from the next call on, with the run state that then holds it.
    said = sum(size_bytes(taken.message.text) for taken in view.steering)
    size = _bytes(unsummarised(view)) + summary + run_state + results + said
    return size // BYTES_PER_TOKEN + view.overhead_tokens + policy.reserved_input_tokens


def summarise(step: CompactHistory, view: CompactionView, on: Entered, now: datetime) -> Summarize:
    """Ask for the summary of what no summary stands for yet, up to the boundary."""
    policy = _policy(view)
    covered = tuple(m for m in unsummarised(view) if m.sequence <= step.through_sequence)
    previous = None if view.summary is None else view.summary.text
    return Summarize(step.turn, covered, previous, policy.summary_token_limit)


def store_summary(
    step: CompactHistory, view: CompactionView, on: HistorySummarized, now: datetime
) -> StepDecision:
    """Put the summary in place of the messages, and go on with the turn."""
    policy, state = _policy(view), view.state
    if not isinstance(state, RunningModel):
        raise StateCorrupt(f"{step.turn} compacts its history in the state {state}")
    text = keep_bytes(clean_text(on.text), policy.summary_token_limit * BYTES_PER_TOKEN)
    if not text.strip():
        raise ContractBroken("the runner made a blank summary")
    summary = HistorySummary(step.through_sequence, text, on.usage)
    first = _first_kept(state.history, step.through_sequence, policy)
    dropped: tuple[Write, ...] = ()
    if first > state.history.first_sequence:
        dropped = (DropMessages(tuple(range(state.history.first_sequence, first))),)
    usage = view.usage + on.usage
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(evolve(state, history=HistoryRange(first, step.through_sequence))),
                SetUsage(usage),
                SetSummary(summary),
                *dropped,
            ),
            events=(
                TurnEvent(step.turn, UsageRecorded(on.usage, usage)),
                TurnEvent(step.turn, HistoryCompacted(step.through_sequence)),
            ),
        ),
        next=GoTo((RunModel(step.turn),)),
    )


def go_on_uncompacted(
    step: RecordCompactionFailure, view: SessionView, on: AttemptsExhausted, now: datetime
) -> StepDecision:
    """A summary is a help, not a condition: the turn goes on with all that is stored."""
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"{step.turn} could not compact its history in the state {view.state}")
    error = error_text(on.detail or on.error_type)
    return StepDecision(
        commit=Commit(
            writes=(SetState(evolve(view.state, may_compact=False)),),
            events=(TurnEvent(step.turn, HistoryCompactionFailed(error)),),
        ),
        next=GoTo((RunModel(step.turn),)),
    )


def _first_kept(history: HistoryRange, through: int, policy: CompactionPolicy) -> int:
    if policy.kept_summarised_messages is None:
        return history.first_sequence
    return max(history.first_sequence, through + 1 - policy.kept_summarised_messages)


def _policy(view: SessionView) -> CompactionPolicy:
    policy = view.options.compaction
    if policy is None:
        raise ContractBroken(
            "the session is to be compacted, but this Worker's options have no compaction policy"
        )
    return policy


# Bytes are counted as they would be of text: what is none takes less of an input than of storage.


def _bytes(messages: Iterable[AgentMessage]) -> int:
    return sum(_weight(message.framework_item, message.estimated_tokens) for message in messages)


def _run_state_bytes(view: TurnView) -> int:
    known = view.state.run_state_tokens if isinstance(view.state, RunningModel) else None
    return _weight(view.run_state or "", known)


def _result_bytes(record: AgentToolCall) -> int:
    if not isinstance(record, Succeeded):
        return 0
    return size_bytes(record.output) + _weight(
        record.framework_content or "", record.content_tokens
    )


def _weight(text: str, estimated_tokens: int | None) -> int:
    return size_bytes(text) if estimated_tokens is None else estimated_tokens * BYTES_PER_TOKEN
