"""All that a session stores, as its views show it. No expectation may live here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import dex
from attrs import field, frozen

from dex_agents_dex.message_cache import MessageCache
from dex_agents_dex.reading import SessionReader
from dex_agents_dex.schema import (
    DEFINITIONS,
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TOOL_CALL_RESULTS,
)
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
from dex_agents_model.records import (
    ApprovalRecord,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
)
from dex_agents_model.requests import (
    ListApprovals,
    ListQueuedMessages,
    ResolveInterrupt,
)
from dex_agents_model.steps import RecordTurnFailure, ResumeTurn, RunModel
from dex_agents_model.views import (
    AnswerView,
    ApprovalsView,
    QueueView,
    ResumeView,
    TurnView,
    UnfinishedTurnView,
)

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
    """Everything, through the views that the Steps and RPCs of a session read."""
    reader, turn = SessionReader(context, OPTIONS, MessageCache()), TurnId.of(1)
    running = reader.step_view(TurnView, RunModel(turn))
    resuming = reader.step_view(ResumeView, ResumeTurn(turn, 1))
    ending = reader.step_view(UnfinishedTurnView, RecordTurnFailure(turn))
    asked = reader.rpc_view(AnswerView, ResolveInterrupt(InterruptId("turn-1.c"), approved=True))
    queue = reader.rpc_view(QueueView, ListQueuedMessages())
    log = reader.rpc_view(ApprovalsView, ListApprovals())
    assert isinstance(running, TurnView)
    assert isinstance(resuming, ResumeView)
    assert isinstance(ending, UnfinishedTurnView)
    assert isinstance(asked, AnswerView)
    assert isinstance(queue, QueueView)
    assert isinstance(log, ApprovalsView)
    sizes = {each.name: each.get_map_size(context) for each in MAPS}
    return Found(
        state=running.state,
        cancelled_turn=running.cancelled_turn,
        usage=running.usage,
        interrupts=asked.interrupts,
        taken_request_ids=asked.taken_request_ids,
        messages=running.messages,
        summary=running.summary,
        run_state=running.run_state,
        tool_calls=running.tool_calls,
        claimed=ending.claimed,
        taken_steering=running.steering,
        approvals=log.approvals,
        steering=tuple(pending.steering for pending in resuming.pending_steering),
        queued=tuple(pending.message for pending in queue.queued),
        answers=ending.answers,
        tool_results=TOOL_CALL_RESULTS.size(context),
        entries={name: size for name, size in sizes.items() if size},
        steering_ids=tuple(pending.channel_message_id for pending in resuming.pending_steering),
        queued_ids=tuple(pending.channel_message_id for pending in queue.queued),
    )
