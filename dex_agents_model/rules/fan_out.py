"""From the tools that the model asks for to one Step each, or to the reason why a session cannot hold them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ..calls import AwaitingApproval, OpenCall, RequestedToolCall, Runnable
from ..decision import (
    Commit,
    GoTo,
    PutToolCall,
    SetInterrupts,
    SetRunState,
    SetState,
    SetUsage,
    StepDecision,
)
from ..effects import DeferredToolCall, ToolCallsRequested
from ..errors import ContractBroken
from ..events import ToolCallDeferred, TurnEvent, UsageRecorded
from ..ids import ToolCallId, usable_tool_name
from ..records import RunningModel, RunningTools
from ..steps import ResumeTurn, RunModel
from ..text import clean_text, is_json_object, is_storable, shorten, size_bytes
from ..views import TurnView
from .approval import MAX_PENDING_APPROVALS, interrupts_for
from .limits import end_after_a_call, running_model
from .tools import first_step, is_fenced

MAX_TURN_TOOL_CALLS: Final = 1000
MAX_TURN_TOOL_CALL_ID_BYTES: Final = 48 * 1024
"""The session's state names every call of the turn, and travels with each of its Steps."""

_SHOWN_BYTES: Final = 200
_SECOND: Final = timedelta(seconds=1)


def fan_out_tool_calls(
    step: RunModel, view: TurnView, on: ToolCallsRequested, now: datetime
) -> StepDecision:
    """One Step per call, in model order, and one ResumeTurn that waits for them all."""
    state = running_model(view)
    records = _opened(on, state, view)
    waiting = tuple(r for r in records if isinstance(r, AwaitingApproval))
    refusal = _refusal(records, len(waiting), view)
    if refusal is not None:
        return end_after_a_call(step, view, on.usage, refusal)
    usage = view.usage + on.usage
    running = RunningTools(
        turn_count=state.turn_count,
        message_count=state.message_count,
        model_calls=state.model_calls + 1,
        steering_count=state.steering_count,
        history=state.history,
        may_compact=state.may_compact,
        run_state_tokens=on.run_state_tokens,
        tool_call_ids=tuple(record.tool_call_id for record in (*view.tool_calls, *records)),
        earlier_tool_calls=len(view.tool_calls),
    )
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(running),
                SetUsage(usage),
                SetRunState(on.framework_run_state),
                *map(PutToolCall, records),
                *((SetInterrupts(interrupts_for(waiting)),) if waiting else ()),
            ),
            events=(
                TurnEvent(step.turn, UsageRecorded(on.usage, usage)),
                *(TurnEvent(step.turn, _deferred(record)) for record in records),
            ),
        ),
        next=GoTo((*map(first_step, records), ResumeTurn(step.turn, len(records)))),
    )


def _refusal(records: tuple[OpenCall, ...], waiting: int, view: TurnView) -> str | None:
    """Why a session cannot hold what the model asked for; None when it can."""
    size = sum(size_bytes(record.arguments) for record in records)
    if size > view.options.max_response_argument_bytes:
        return (
            f"the model's {len(records)} tool calls have {size} bytes of arguments;"
            f" max_response_argument_bytes is {view.options.max_response_argument_bytes}"
        )
    if waiting > MAX_PENDING_APPROVALS:
        return (
            f"{waiting} tool calls of one model response need approval;"
            f" at most {MAX_PENDING_APPROVALS} can wait at a time"
        )
    ids = [record.tool_call_id for record in (*view.tool_calls, *records)]
    id_bytes = sum(map(size_bytes, ids))
    if len(ids) > MAX_TURN_TOOL_CALLS or id_bytes > MAX_TURN_TOOL_CALL_ID_BYTES:
        return (
            f"the turn asked for {len(ids)} tool calls, whose IDs have {id_bytes} bytes;"
            f" a turn may have {MAX_TURN_TOOL_CALLS} and {MAX_TURN_TOOL_CALL_ID_BYTES}"
        )
    return None


def _opened(on: ToolCallsRequested, state: RunningModel, view: TurnView) -> tuple[OpenCall, ...]:
    if not on.framework_run_state or not is_storable(on.framework_run_state):
        raise ContractBroken("the runner asked for tools without a run state that can be stored")
    if not on.tool_calls:
        raise ContractBroken("the runner asked for tools without naming a call")
    records = tuple(
        _open(call, state, view, order)
        for order, call in enumerate(on.tool_calls, len(view.tool_calls))
    )
    ids = [record.tool_call_id for record in (*view.tool_calls, *records)]
    if len(set(ids)) < len(ids):
        repeated = sorted({call for call in ids if ids.count(call) > 1})
        raise ContractBroken(f"tool call IDs repeat within {state.active_turn_id}: {repeated}")
    return records


def _open(call: DeferredToolCall, state: RunningModel, view: TurnView, order: int) -> OpenCall:
    try:
        tool_name = usable_tool_name(clean_text(call.tool_name))
        tool_call_id = ToolCallId.standing_for(call.tool_call_id)
    except ValueError as error:
        raise ContractBroken(f"the model's call of {call.tool_name[:40]!r}: {error}") from error
    if call.framework_memo is not None and not is_storable(call.framework_memo):
        raise ContractBroken(f"the memo of tool call {tool_call_id} cannot be stored")
    arguments = clean_text(call.arguments)
    if not is_json_object(arguments):
        raise ContractBroken(
            f"the arguments of the model's call of {call.tool_name!r} are no JSON object:"
            f" {shorten(arguments, _SHOWN_BYTES)!r}"
        )
    timeout = call.policy.timeout
    requested = RequestedToolCall(
        turn_id=state.active_turn_id,
        tool_call_id=tool_call_id,
        tool_name=tool_name,
        arguments=arguments,
        effect=call.policy.effect,
        requires_approval=call.policy.is_approval_required,
        deferral_order=order,
        model_call=state.model_calls + 1,
        framework_memo=call.framework_memo,
        timeout_seconds=None if timeout is None else timeout // _SECOND,
        fenced=is_fenced(call.policy.effect, view),
    )
    return AwaitingApproval(requested) if requested.requires_approval else Runnable(requested)


def _deferred(record: OpenCall) -> ToolCallDeferred:
    call = record.call
    return ToolCallDeferred(call.tool_call_id, call.tool_name, call.effect, call.requires_approval)
