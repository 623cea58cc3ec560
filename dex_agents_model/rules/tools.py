"""From a runnable call to its one result."""

from __future__ import annotations

from datetime import datetime

from ..calls import (
    AgentToolCall,
    AwaitingApproval,
    Failed,
    FinalCall,
    OpenCall,
    OutcomeUnknown,
    Runnable,
    Succeeded,
    ToolEffect,
)
from ..decision import Commit, EndBranch, PutToolCall, StepDecision, ToolCallFinished, Write
from ..effects import AttemptsExhausted, Entered, ExecuteTool, ToolRaised, ToolReturned
from ..errors import StateCorrupt
from ..events import EventPayload, TurnEvent
from ..events import ToolCallFinished as ToolCallFinishedEvent
from ..policy import EFFECT_RULES
from ..steps import (
    AwaitToolApproval,
    CallSingleAttemptTool,
    CallTool,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
)
from ..text import clean_text, error_text, is_storable, keep_bytes, size_bytes
from ..views import CallView, SessionView


def first_step(record: OpenCall) -> AwaitToolApproval | CallTool | CallSingleAttemptTool:
    """Where a call's branch begins."""
    match record:
        case AwaitingApproval():
            return AwaitToolApproval(record.turn_id, record.tool_call_id)
        case Runnable():
            return running_step(record)


def running_step(record: Runnable) -> CallTool | CallSingleAttemptTool:
    """The Step that runs a call: which one is a matter of how often it may start."""
    if EFFECT_RULES[record.effect].is_single_attempt:
        return CallSingleAttemptTool(record.turn_id, record.tool_call_id)
    return CallTool(record.turn_id, record.tool_call_id)


def run_tool(
    step: CallTool | CallSingleAttemptTool, view: CallView, on: Entered, now: datetime
) -> ExecuteTool | StepDecision:
    """Run what may run. A record that is already final needs neither a run nor a result."""
    match _record(step.call, view):
        case Runnable() as record:
            said = record.call.fenced
            return ExecuteTool(record, is_fenced(record.effect, view) if said is None else said)
        case AwaitingApproval():
            raise StateCorrupt(f"{step.call} of {step.turn} would run before its approval")
        case _:
            return StepDecision(next=EndBranch())


def record_output(
    step: CallTool | CallSingleAttemptTool, view: CallView, on: ToolReturned, now: datetime
) -> StepDecision:
    """The tool returned; a result beyond the limit is cut, never refused: the work is done."""
    record = _runnable(step.call, view)
    output, was_cut = _within(view, record.tool_name, clean_text(on.output))
    content = on.framework_content
    refusal = None if content is None else _content_refusal(content, view)
    if refusal is None:
        return finish(Succeeded(record.call, output, was_cut, content, on.content_tokens))
    marker = f"\n[What {record.tool_name} returned beside this text was left out: {refusal}.]"
    return finish(Succeeded(record.call, output + marker, output_truncated=True))


def _content_refusal(content: str, view: CallView) -> str | None:
    """Why a tool's content cannot be stored; the tool has run, so it is left out, never refused."""
    if not is_storable(content):
        return "it is no text that UTF-8 can hold"
    size, limit_bytes = size_bytes(content), view.options.max_tool_content_bytes
    return f"{size} bytes; at most {limit_bytes} are kept" if size > limit_bytes else None


def _within(view: CallView, tool_name: str, output: str) -> tuple[str, bool]:
    kept = keep_bytes(output, view.options.max_tool_output_bytes)
    if kept == output:
        return output, False
    marker = (
        f"\n[The result of {tool_name} was cut: {size_bytes(kept)} of"
        f" {size_bytes(output)} bytes are kept.]"
    )
    return kept + marker, True


def record_error(
    step: CallTool | CallSingleAttemptTool, view: CallView, on: ToolRaised, now: datetime
) -> StepDecision:
    """The tool said that it failed: the model is told, and nothing is tried again."""
    record = _runnable(step.call, view)
    error = error_text(on.message)
    return finish(
        _unfinished(record, error) if on.may_have_happened else Failed(record.call, error)
    )


def give_up(
    step: RecordToolFailure | RecordToolOutcomeUnknown,
    view: CallView,
    on: AttemptsExhausted,
    now: datetime,
) -> StepDecision:
    """No attempt ended: say so, and whether the work may have happened."""
    if isinstance(_record(step.call, view), FinalCall):
        return StepDecision(next=EndBranch())
    record = _runnable(step.call, view)
    error = error_text(on.detail or on.error_type or "the Step was given up without an error")
    claimed = view.claimant is not None
    if not may_have_started(record, claimed=claimed):
        return finish(Failed(record.call, f"the call never started: {error}"))
    return finish(_unfinished(record, error))


def _unfinished(record: Runnable, error: str) -> OutcomeUnknown | Failed:
    """What a call is that may have begun and did not end: its effect says whether that may matter."""
    if EFFECT_RULES[record.effect].may_have_happened:
        return OutcomeUnknown(record.call, error)
    return Failed(record.call, error)


def may_have_started(record: Runnable, *, claimed: bool) -> bool:
    """Whether a call that may run may have begun to: one that is known to be fenced only after it was claimed."""
    return claimed or record.call.fenced is not True


def is_fenced(effect: ToolEffect, view: SessionView) -> bool:
    """Whether the options of this Worker fence a call of such a tool."""
    return EFFECT_RULES[effect].is_single_attempt and view.options.fence_single_attempt_tools


def finish(
    record: FinalCall, *, writes: tuple[Write, ...] = (), events: tuple[EventPayload, ...] = ()
) -> StepDecision:
    """The only way to make a record final; hence exactly one result per call."""
    ended = ToolCallFinishedEvent(record.tool_call_id, record.tool_name, record.status)
    return StepDecision(
        commit=Commit(
            writes=(PutToolCall(record), *writes),
            publishes=(ToolCallFinished(record),),
            events=tuple(TurnEvent(record.turn_id, payload) for payload in (*events, ended)),
        ),
        next=EndBranch(),
    )


def _record(call: str, view: CallView) -> AgentToolCall:
    if view.record is None:
        raise StateCorrupt(f"the running turn has no record of its tool call {call}")
    return view.record


def _runnable(call: str, view: CallView) -> Runnable:
    record = _record(call, view)
    if not isinstance(record, Runnable):
        raise StateCorrupt(f"tool call {call} ran while it was {record.status}")
    return record
