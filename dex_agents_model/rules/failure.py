"""How a turn ends without an answer, and what the next turn is told of it."""

from __future__ import annotations

from datetime import datetime

from ..calls import (
    AgentToolCall,
    AwaitingApproval,
    Cancelled,
    FinalCall,
    OutcomeUnknown,
    Runnable,
)
from ..decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    DrainChannels,
    GoTo,
    RecordApproval,
    SetState,
    StepDecision,
    Write,
)
from ..effects import (
    AttemptsExhausted,
    BuildUnfinishedTurn,
    Entered,
    TurnGivenUp,
    UnfinishedTurnBuilt,
)
from ..errors import StateCorrupt
from ..events import ToolCallFinished, TurnEvent
from ..notes import build_turn_failure_note
from ..policy import EFFECT_RULES
from ..records import (
    AgentUserMessage,
    ApprovalDecision,
    RunningModel,
    RunningTools,
    TurnCancelled,
    TurnEnd,
    TurnFailed,
    WaitingForUserMessage,
)
from ..steps import AwaitUserMessage, RecordTurnCancelled, RecordTurnFailure, RunModel
from ..text import error_text
from ..views import TurnView, UnfinishedTurnView
from .approval import approval_record
from .limits import end_after_a_call
from .messages import place
from .tools import may_have_started


def give_turn_up(step: RunModel, view: TurnView, on: TurnGivenUp, now: datetime) -> StepDecision:
    """Another attempt would ask the model as often again: the turn ends here, and what it used counts."""
    error = error_text(on.error) or "the turn was given up without an error"
    return end_after_a_call(step, view, on.usage, error)


def record_lost_turn(
    step: RecordTurnFailure, view: UnfinishedTurnView, on: AttemptsExhausted, now: datetime
) -> BuildUnfinishedTurn | StepDecision:
    """The model Step was given up."""
    error = on.detail or on.error_type or "the model call was given up without an error"
    return _fail(step, view, error, now)


def record_ended_turn(
    step: RecordTurnFailure, view: UnfinishedTurnView, on: Entered, now: datetime
) -> BuildUnfinishedTurn | StepDecision:
    """A rule ended the turn: it broke a limit."""
    return _fail(step, view, step.error or "the turn was ended without an error", now)


def finish_failed_turn(
    step: RecordTurnFailure, view: UnfinishedTurnView, on: UnfinishedTurnBuilt, now: datetime
) -> StepDecision:
    """End the turn as failed, with what the runner could keep of it."""
    failed = TurnFailed(error_text(on.error or ""))
    return _end(view, view.tool_calls, on, failed)


def record_turn_cancelled(
    step: RecordTurnCancelled, view: UnfinishedTurnView, on: Entered, now: datetime
) -> BuildUnfinishedTurn | StepDecision:
    """A person stopped the turn: finish what it left open."""
    if view.run_state is None:
        return finish_cancelled_turn(step, view, UnfinishedTurnBuilt(None, None), now)
    return BuildUnfinishedTurn(step.turn, view.run_state, _all_final(view), None)


def finish_cancelled_turn(
    step: RecordTurnCancelled, view: UnfinishedTurnView, on: UnfinishedTurnBuilt, now: datetime
) -> StepDecision:
    """End the turn as cancelled, and leave nothing of it behind in a Channel."""
    asked = tuple(r for r in view.tool_calls if isinstance(r, AwaitingApproval))
    answers = {answer.interrupt_id: answer for answer in view.answers}
    decided = tuple(
        RecordApproval(
            approval_record(
                record,
                answers.get(record.interrupt_id),
                otherwise=ApprovalDecision.CANCELLED,
                now=now,
            ),
            number,
        )
        for number, record in enumerate(asked, view.approval_count)
    )
    drained = DrainChannels(tuple(record.interrupt_id for record in asked))
    return _end(view, _all_final(view), on, TurnCancelled(), (*decided, drained))


def _fail(
    step: RecordTurnFailure, view: UnfinishedTurnView, error: str, now: datetime
) -> BuildUnfinishedTurn | StepDecision:
    if not isinstance(view.state, RunningModel):
        raise StateCorrupt(f"{step.turn} failed at its model call in the state {view.state}")
    if view.run_state is None:
        return finish_failed_turn(step, view, UnfinishedTurnBuilt(None, error), now)
    return BuildUnfinishedTurn(step.turn, view.run_state, view.tool_calls, error)


def _end(
    view: UnfinishedTurnView,
    records: tuple[AgentToolCall, ...],
    on: UnfinishedTurnBuilt,
    end: TurnEnd,
    writes: tuple[Write, ...] = (),
) -> StepDecision:
    """Keep the turn's finished items when the runner has built them; else a note of what may have run.

    Each tool call then has a result in the history, or stands in the note, and no steering is lost:
    what the kept items do not hold follows them in the user's own words.
    """
    state = view.state
    if not isinstance(state, RunningModel | RunningTools):
        raise StateCorrupt(f"a turn that ends has the state {state}")
    turn = state.active_turn_id
    kept = place(on.messages or (), state.message_count + 1, turn)
    told_until = state.model_calls if on.messages is not None else 0
    said = [taken.message for taken in view.steering if taken.model_calls >= told_until]
    if on.messages is None:
        ended = "was cancelled" if isinstance(end, TurnCancelled) else "failed"
        note = build_turn_failure_note(records, ended=ended)
        said += [] if note is None else [AgentUserMessage(note)]
    first = state.message_count + len(kept) + 1
    idle = WaitingForUserMessage(
        turn_count=state.turn_count,
        message_count=state.message_count + len(kept) + len(said),
        last_turn=end,
        history=state.history,
    )
    were_final = {r.tool_call_id for r in view.tool_calls if isinstance(r, FinalCall)}
    ended_now = (r for r in records if r.tool_call_id not in were_final)
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(idle),
                *((AppendMessages(kept),) if kept else ()),
                *(AppendUserMessage(first + n, turn, message) for n, message in enumerate(said)),
                *writes,
                ClearTurn(),
            ),
            events=tuple(
                TurnEvent(turn, ToolCallFinished(r.tool_call_id, r.tool_name, r.status))
                for r in ended_now
            ),
        ),
        next=GoTo((AwaitUserMessage(),)),
    )


def _all_final(view: UnfinishedTurnView) -> tuple[AgentToolCall, ...]:
    """The turn's records, those that are open ended by the cancel."""
    return tuple(_cancelled(record, view) for record in view.tool_calls)


def _cancelled(record: AgentToolCall, view: UnfinishedTurnView) -> AgentToolCall:
    match record:
        case AwaitingApproval(call):
            return Cancelled(call)
        case Runnable(call):
            effect = EFFECT_RULES[call.effect]
            if effect.may_have_happened and may_have_started(
                record, claimed=record.tool_call_id in view.claimed
            ):
                return OutcomeUnknown(call, "the turn was cancelled while the call may have run")
            return Cancelled(call)
        case _:
            return record
