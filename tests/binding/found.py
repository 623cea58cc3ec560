"""All that a session stores, as its views show it. No expectation may live here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import dex
from attrs import field, frozen

from dex_agents_dex.known import Known
from dex_agents_dex.reading import SessionReader
from dex_agents_dex.schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVALS,
    DEFINITIONS,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TAKEN_REQUEST_IDS,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
    TOOL_CALL_RESULTS,
)
from dex_agents_dex.step_reading import waiting_answers
from dex_agents_model import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentSessionOptions,
    AgentState,
    AgentToolCall,
    AgentUsage,
    AgentUserMessage,
    InterruptId,
    ToolCallId,
    TurnId,
)
from dex_agents_model.decision import Publish, Write
from dex_agents_model.effects import Occurrence
from dex_agents_model.layout import read_message, read_run_state, read_tool_call
from dex_agents_model.records import (
    ApprovalRecord,
    HistoryRange,
    HistorySummary,
    RunningModel,
    SteeringMessage,
    TakenSteering,
)
from dex_agents_model.requests import (
    ListQueuedMessages,
    ResolveInterrupt,
)
from dex_agents_model.views import AnswerView, QueueView

T = TypeVar("T")

OPTIONS = AgentSessionOptions()
MAPS: tuple[dex.AttributeMap[Any], ...] = tuple(
    each for each in DEFINITIONS if isinstance(each, dex.AttributeMap)
)
EVERYTHING = dex.StepOptions(
    execute_load_attribute_maps=MAPS,
    execute_load_channels=(STEERING_MESSAGES, QUEUED_USER_MESSAGES, TOOL_CALL_RESULTS),
    execute_load_channel_maps=(INTERRUPT_RESOLUTIONS,),
)


@frozen(kw_only=True)
class Found:
    """All that a session stores, as its views show it, and how many entries each map has.

    No more than two Channels may hold messages: SDK 1.23 confuses the values of three that are
    loaded at once, in some processes.
    """

    state: AgentState | None = None
    cancelled_turn: TurnId | None = None
    usage: AgentUsage = AgentUsage()
    interrupts: tuple[AgentInterrupt, ...] = ()
    taken_request_ids: tuple[str, ...] = ()
    messages: tuple[AgentMessage, ...] = ()
    """Those that no summary stands for."""
    summary: HistorySummary | None = None
    run_state: str | None = None
    tool_calls: tuple[AgentToolCall, ...] = ()
    claimed: frozenset[ToolCallId] = frozenset()
    taken_steering: tuple[TakenSteering, ...] = ()
    approvals: tuple[ApprovalRecord, ...] = ()
    approval_count: int = 0
    steering: tuple[SteeringMessage, ...] = ()
    queued: tuple[AgentUserMessage, ...] = ()
    answers: tuple[AgentInterruptResolution, ...] = ()
    tool_results: int = 0
    entries: Mapping[str, int] = MappingProxyType({})
    steering_ids: tuple[str, ...] = field(default=(), eq=False)
    queued_ids: tuple[str, ...] = field(default=(), eq=False)


Change: TypeAlias = Write | Publish
Changes: TypeAlias = "tuple[Change, ...] | Callable[[Found], tuple[Change, ...]]"
"""What one Step stages; a function when it depends on what the Step finds."""


@frozen(kw_only=True)
class Woken:
    """Why a Step that waited executes, and how many messages it left in the Channels."""

    occurrence: Occurrence
    steering: int = 0
    user_messages: int = 0
    tool_results: int = 0
    answers: int = 0


def find(context: dex.Context) -> Found:
    """Everything, read from the maps as a whole."""
    reader = SessionReader(context, OPTIONS)
    session = reader.rpc_view(AnswerView, ResolveInterrupt(InterruptId("turn-1.c"), approved=True))
    queue = reader.rpc_view(QueueView, ListQueuedMessages())
    assert isinstance(session, AnswerView)
    assert isinstance(queue, QueueView)
    steering = reader.pending_steering()
    state, summaries = session.state, _all(HISTORY_SUMMARY, context)
    covered = 0 if state is None else state.history.summarised_through
    sizes = {each.name: each.get_map_size(context) for each in MAPS}
    return Found(
        state=state,
        cancelled_turn=session.cancelled_turn,
        usage=reader.usage,
        interrupts=session.interrupts,
        taken_request_ids=tuple(each for ids in _all(TAKEN_REQUEST_IDS, context) for each in ids),
        messages=tuple(each for each in _messages(context) if each.sequence > covered),
        summary=summaries[-1] if summaries else None,
        run_state=read_run_state(_by_key(FRAMEWORK_RUN_STATE, context)),
        tool_calls=_tool_calls(context),
        claimed=frozenset(map(ToolCallId, _by_key(TOOL_CALL_CLAIMS, context))),
        taken_steering=_all(TAKEN_STEERING, context),
        approvals=_all(APPROVALS, context),
        approval_count=reader.approval_count,
        steering=tuple(pending.steering for pending in steering),
        queued=tuple(pending.message for pending in queue.queued),
        answers=waiting_answers(context),
        tool_results=TOOL_CALL_RESULTS.size(context),
        entries={name: size for name, size in sizes.items() if size},
        steering_ids=tuple(pending.channel_message_id for pending in steering),
        queued_ids=tuple(pending.channel_message_id for pending in queue.queued),
    )


def known_of(context: dex.Context) -> Known:
    """What a Step knows that has read the session whole, in the middle of its turn."""
    found = find(context)
    state = RunningModel(
        1,
        len(found.messages),
        0,
        len(found.taken_steering),
        HistoryRange(summarised_through=found.summary.through_sequence if found.summary else 0),
        tool_call_ids=tuple(record.tool_call_id for record in found.tool_calls),
    )
    return Known(
        state=state,
        run_state=found.run_state,
        records={record.tool_call_id: record for record in found.tool_calls},
        call_entries={
            ToolCallId(key): entry for key, entry in _by_key(AGENT_TOOL_CALLS, context).items()
        },
        summarised_entries={
            int(key): entry for key, entry in _by_key(AGENT_MESSAGES, context).items()
        },
    )


def _by_key(entries: dex.AttributeMap[T], context: dex.Context) -> dict[str, T]:
    keys = entries.get_all_instance_keys(context)
    return {key: entries.get(context, key) for key in keys}


def _all(entries: dex.AttributeMap[T], context: dex.Context) -> tuple[T, ...]:
    return tuple(_by_key(entries, context).values())


def _messages(context: dex.Context) -> tuple[AgentMessage, ...]:
    parts = _by_key(AGENT_MESSAGE_PARTS, context)
    return tuple(read_message(entry, parts) for entry in _all(AGENT_MESSAGES, context))


def _tool_calls(context: dex.Context) -> tuple[AgentToolCall, ...]:
    parts = _by_key(AGENT_TOOL_CALL_PARTS, context)
    records = (read_tool_call(entry, parts) for entry in _all(AGENT_TOOL_CALLS, context))
    return tuple(sorted(records, key=lambda record: record.deferral_order))
