"""What a simulated session has stored: text by key, as an engine would hold it, and the way in and out.

Every record passes `layout` and `wire` on each commit and on each load, so nothing in a simulation
can depend on the identity of an object. No rule and no schedule may live here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast

from attrs import fields_dict, frozen

from ..calls import AgentToolCall
from ..ids import ToolCallId, TurnId
from ..layout import (
    Entry,
    read_message,
    read_run_state,
    read_shortened_tool_call,
    read_tool_call,
)
from ..records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentUsage,
    AgentUserMessage,
    ApprovalRecord,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
)
from ..views import PendingSteering, PendingUserMessage
from ..wire import load
from .channels import (
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TOOL_CALL_RESULTS,
    Channels,
)

V = TypeVar("V")
Records: TypeAlias = tuple[tuple[str, str], ...]
"""Stored text by key, sorted by key. Immutable: a snapshot is a part of the thing itself."""

STATE: Final = "AgentState"
USAGE: Final = "AgentUsage"
INTERRUPTS: Final = "PendingInterrupts"
REQUEST_IDS: Final = "TakenRequestIds"
CANCELLED_TURN: Final = "CancelledTurn"
MESSAGES: Final = "AgentMessages/"
MESSAGE_PARTS: Final = "AgentMessageParts/"
RUN_STATE: Final = "FrameworkRunState/"
CALLS: Final = "AgentToolCalls/"
CALL_PARTS: Final = "AgentToolCallParts/"
CLAIMS: Final = "ToolCallClaims/"
TAKEN_STEERING: Final = "TakenSteering/"
SUMMARY: Final = "HistorySummary/"
APPROVALS: Final = "Approvals/"
APPROVAL_COUNT: Final = "ApprovalCount"

_KEPT: Final = 16_384
_NOT_STORED: Final = frozenset({"session_id", "options", "overhead_tokens", "first"})


# --- what a snapshot holds -----------------------------------------------------------------


def snapshot_for(
    view: type[Any], call: str | None, records: Records, channels: Channels
) -> Records:
    """What a Step or an RPC that reads ``view`` is given; ``call`` is the one tool call that it is about.

    Messages of Channels stand in it as their Channel and text.
    """
    keys, prefixes = _selection(tuple(fields_dict(view)), call)
    loaded = [pair for pair in records if pair[0] in keys or pair[0].startswith(prefixes)]
    for channel, messages in channels:
        if channel in keys or channel.startswith(prefixes):
            loaded += [(channel, message) for message in messages]
    return tuple(loaded)


def read_view(view: type[V], snapshot: Records, **not_stored: object) -> V:
    """``snapshot``, which was taken for this view, as the view; ``not_stored`` are fields of its own kind."""
    names = fields_dict(cast("type[Any]", view)).keys()
    values = {name: _FIELDS[name].read(snapshot) for name in names - _NOT_STORED}
    if "summary" in names:
        values["messages"] = _messages_behind_summary(snapshot)
    given = {name: value for name, value in not_stored.items() if name in names}
    make = cast("Callable[..., V]", view)
    return make(**values, **given)


# --- each field of a view, from a snapshot or from all that is stored ------------------------


@lru_cache(_KEPT)
def state_in(records: Records) -> AgentState | None:
    state: AgentState | None = _one(records, STATE, AgentState)
    return state


@lru_cache(_KEPT)
def active_turn_in(records: Records) -> TurnId | None:
    """The turn that runs, cancelled or not."""
    state = state_in(records)
    return None if state is None else state.active_turn_id


@lru_cache(_KEPT)
def usage_in(records: Records) -> AgentUsage:
    return _one(records, USAGE, AgentUsage) or AgentUsage()


@lru_cache(_KEPT)
def interrupts_in(records: Records) -> tuple[AgentInterrupt, ...]:
    return _one(records, INTERRUPTS, tuple[AgentInterrupt, ...]) or ()


def request_ids_in(records: Records) -> tuple[str, ...]:
    return _one(records, REQUEST_IDS, tuple[str, ...]) or ()


def cancelled_turn_in(records: Records) -> TurnId | None:
    turn = _at(records, CANCELLED_TURN)
    return None if turn is None else TurnId(turn)


def run_state_in(records: Records) -> str | None:
    return read_run_state(_under(records, RUN_STATE))


@lru_cache(_KEPT)
def messages_in(records: Records) -> tuple[AgentMessage, ...]:
    """All stored messages in sequence order."""
    parts = _under(records, MESSAGE_PARTS)
    return tuple(
        read_message(Entry(json.loads(text)), parts) if parts else _whole_message(text)
        for key, text in records
        if key.startswith(MESSAGES)
    )


@lru_cache(_KEPT)
def tool_calls_in(records: Records) -> tuple[AgentToolCall, ...]:
    """The running turn's records in model order, shortened when their parts were not loaded."""
    parts = _under(records, CALL_PARTS)
    found = (
        read_tool_call(Entry(json.loads(text)), parts) if parts else _short_call(text)
        for key, text in records
        if key.startswith(CALLS)
    )
    return tuple(sorted(found, key=lambda record: record.deferral_order))


def summary_in(records: Records) -> HistorySummary | None:
    """The newest summary of earlier turns."""
    summary: HistorySummary | None = next(reversed(_all(records, SUMMARY, HistorySummary)), None)
    return summary


def claims_in(records: Records) -> frozenset[ToolCallId]:
    """The calls that a delivery has claimed."""
    return frozenset(map(ToolCallId, _under(records, CLAIMS)))


def taken_steering_in(records: Records) -> tuple[TakenSteering, ...]:
    return _all(records, TAKEN_STEERING, TakenSteering)


def approvals_in(records: Records) -> tuple[ApprovalRecord, ...]:
    """Every decision about a tool call, oldest first."""
    return _all(records, APPROVALS, ApprovalRecord)


def approval_count_in(records: Records) -> int:
    return int(_at(records, APPROVAL_COUNT) or 0)


def answers_in(records: Records) -> tuple[AgentInterruptResolution, ...]:
    return _all(records, INTERRUPT_RESOLUTIONS, AgentInterruptResolution)


def pending_steering_in(records: Records) -> tuple[PendingSteering, ...]:
    return tuple(
        PendingSteering(text, _loaded(text, SteeringMessage))
        for text in _under_all(records, STEERING_MESSAGES)
    )


def queued_in(records: Records) -> tuple[PendingUserMessage, ...]:
    return tuple(
        PendingUserMessage(text, _loaded(text, AgentUserMessage))
        for text in _under_all(records, QUEUED_USER_MESSAGES)
    )


def _messages_behind_summary(snapshot: Records) -> tuple[AgentMessage, ...]:
    messages, state = messages_in(snapshot), state_in(snapshot)
    behind = () if state is None else state.history.behind_summary(state.message_count)
    return tuple(m for m in messages if m.sequence in behind)


def _only_call(snapshot: Records) -> AgentToolCall | None:
    return next(iter(tool_calls_in(snapshot)), None)


def _only_claimant(snapshot: Records) -> str | None:
    return next(iter(_under_all(snapshot, CLAIMS)), None)


@frozen
class _Field:
    """How a field of a view is read, and from where.

    A source that ends with ``/`` or ``.`` is all keys that begin so; ``{call}`` is the call's ID.
    The parts of tool calls come with the run state: who has the turn whole has their texts whole.
    Claims come with the records, for whoever clears the turn.
    """

    read: Callable[[Records], object]
    sources: tuple[str, ...]


_FIELDS: Final[Mapping[str, _Field]] = {
    "state": _Field(state_in, (STATE,)),
    "cancelled_turn": _Field(cancelled_turn_in, (CANCELLED_TURN,)),
    "usage": _Field(usage_in, (USAGE,)),
    "interrupts": _Field(interrupts_in, (INTERRUPTS,)),
    "taken_request_ids": _Field(request_ids_in, (REQUEST_IDS,)),
    "messages": _Field(messages_in, (MESSAGES, MESSAGE_PARTS)),
    "run_state": _Field(run_state_in, (RUN_STATE, CALL_PARTS)),
    "tool_calls": _Field(tool_calls_in, (CALLS, CLAIMS)),
    "summary": _Field(summary_in, (SUMMARY,)),
    "claimed": _Field(claims_in, (CLAIMS,)),
    "steering": _Field(taken_steering_in, (TAKEN_STEERING,)),
    "pending_steering": _Field(pending_steering_in, (STEERING_MESSAGES,)),
    "answers": _Field(answers_in, (INTERRUPT_RESOLUTIONS, TOOL_CALL_RESULTS)),
    "record": _Field(_only_call, (f"{CALLS}{{call}}", f"{CALL_PARTS}{{call}}.")),
    "claimant": _Field(_only_claimant, (f"{CLAIMS}{{call}}",)),
    "approvals": _Field(approvals_in, (APPROVALS,)),
    "approval_count": _Field(approval_count_in, (APPROVAL_COUNT,)),
    "queued": _Field(queued_in, (QUEUED_USER_MESSAGES,)),
    "queued_message_count": _Field(
        lambda snapshot: len(queued_in(snapshot)), (QUEUED_USER_MESSAGES,)
    ),
}


@lru_cache(1_024)
def _selection(names: tuple[str, ...], call: str | None) -> tuple[frozenset[str], tuple[str, ...]]:
    sources = [
        source.replace("{call}", call or "")
        for name in names
        if name not in _NOT_STORED
        for source in _FIELDS[name].sources
    ]
    prefixes = tuple(source for source in sources if source.endswith(("/", ".")))
    return frozenset(sources) - frozenset(prefixes), prefixes


# --- text ----------------------------------------------------------------------------------


@lru_cache(_KEPT)
def _loaded(text: str, shape: Any) -> Any:
    return load(json.loads(text), shape)


@lru_cache(_KEPT)
def _whole_message(text: str) -> AgentMessage:
    return read_message(Entry(json.loads(text)), {})


@lru_cache(_KEPT)
def _short_call(text: str) -> AgentToolCall:
    return read_shortened_tool_call(Entry(json.loads(text)))


def _one(records: Records, key: str, shape: Any) -> Any:
    text = _at(records, key)
    return None if text is None else _loaded(text, shape)


def _all(records: Records, prefix: str, shape: Any) -> tuple[Any, ...]:
    return tuple(_loaded(text, shape) for text in _under_all(records, prefix))


def _at(records: Records, key: str) -> str | None:
    return next((text for found, text in records if found == key), None)


def _under(records: Records, prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: text for key, text in records if key.startswith(prefix)}


def _under_all(records: Records, prefix: str) -> tuple[str, ...]:
    return tuple(text for key, text in records if key.startswith(prefix))
