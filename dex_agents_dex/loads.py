"""What Dex is to load for each view: whole maps, exact entries, what waits in Channels. No more than is needed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import ToolCallId
from dex_agents_model.layout import lay_tool_call, message_key
from dex_agents_model.records import AgentState
from dex_agents_model.views import (
    ApprovalsView,
    ApprovalView,
    CompactionView,
    MessagesView,
    QueueView,
    ResumeView,
    RpcView,
    SnapshotView,
    StepView,
    TurnView,
    UnfinishedTurnView,
)

from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVALS,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
    TOOL_CALL_RESULTS,
)


@frozen
class Loads:
    """What a view needs beside the singletons: whole maps, and what waits in Channels."""

    maps: tuple[dex.AttributeMap[Any], ...] = ()
    channels: tuple[dex.Channel[Any], ...] = ()
    channel_maps: tuple[dex.ChannelMap[Any], ...] = ()


_HISTORY_MAPS: Final = (AGENT_MESSAGES, AGENT_MESSAGE_PARTS, HISTORY_SUMMARY)
_TURN_MAPS: Final = (
    FRAMEWORK_RUN_STATE,
    AGENT_TOOL_CALLS,
    AGENT_TOOL_CALL_PARTS,
    TOOL_CALL_CLAIMS,
    TAKEN_STEERING,
)
_NOTHING: Final = Loads()
_LOADS_OF: Final[Mapping[type[object], Loads]] = MappingProxyType(
    {
        TurnView: Loads(maps=(*_HISTORY_MAPS, *_TURN_MAPS)),
        CompactionView: Loads(maps=_HISTORY_MAPS),
        ResumeView: Loads(maps=(AGENT_TOOL_CALLS,), channels=(STEERING_MESSAGES,)),
        UnfinishedTurnView: Loads(
            maps=_TURN_MAPS,
            channels=(TOOL_CALL_RESULTS,),
            channel_maps=(INTERRUPT_RESOLUTIONS,),
        ),
        ApprovalView: Loads(channels=(STEERING_MESSAGES,)),
        QueueView: Loads(channels=(QUEUED_USER_MESSAGES,)),
        ApprovalsView: Loads(maps=(APPROVALS,)),
        MessagesView: Loads(maps=(AGENT_MESSAGES, AGENT_MESSAGE_PARTS)),
        SnapshotView: Loads(maps=(AGENT_MESSAGES, AGENT_MESSAGE_PARTS, AGENT_TOOL_CALLS)),
    }
)


def loads_of(view: type[StepView | RpcView]) -> Loads:
    """What Dex is to load for ``view``, whatever the Step or the request is about."""
    return _LOADS_OF.get(view, _NOTHING)


def entries_of(record: AgentToolCall) -> tuple[dex.AttributeMapLoad, ...]:
    """Exactly the entries that a Step needs which is about this one tool call."""
    keys = lay_tool_call(record).entry.part_keys()
    return (
        *head_entries_of(record.tool_call_id),
        *(AGENT_TOOL_CALL_PARTS.load(key) for key in keys),
    )


def message_entries_of(state: AgentState | None) -> tuple[dex.AttributeMapLoad, ...] | None:
    """Exactly the messages that no summary stands for; None while the whole map is to be loaded."""
    sequences = None if state is None else state.history.behind_summary(state.message_count)
    if sequences is None:
        return None
    return tuple(AGENT_MESSAGES.load(message_key(sequence)) for sequence in sequences)


def head_entries_of(call: ToolCallId) -> tuple[dex.AttributeMapLoad, ...]:
    """The entries that tell where one tool call stands, without its long texts."""
    return (AGENT_TOOL_CALLS.load(call), TOOL_CALL_CLAIMS.load(call))
