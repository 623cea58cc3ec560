"""The names under which Dex keeps a session, shared by every Flow type of agent sessions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import dex

from dex_agents_model.layout import Entry
from dex_agents_model.records import (
    AgentUsage,
    AgentUserMessage,
    ApprovalRecord,
    HistorySummary,
    SteeringMessage,
    TakenSteering,
)
from dex_agents_model.spec import Lock

from .codec import INTERRUPTS, REQUEST_IDS, SIGNAL, STATE
from .turn_trace import TurnTrace

# Singletons travel with every Step and every RPC: they stay small.
AGENT_STATE: Final = dex.Attribute("AgentState", STATE)
AGENT_USAGE: Final = dex.Attribute("AgentUsage", AgentUsage)
PENDING_INTERRUPTS: Final = dex.Attribute("PendingInterrupts", INTERRUPTS)
APPROVAL_COUNT: Final = dex.Attribute("ApprovalCount", int)
RUN_STATE_PART_COUNT: Final = dex.Attribute("FrameworkRunStatePartCount", int)
# For operators who search sessions by it; written with whatever changes it, read by nothing here.
AGENT_STATUS: Final = dex.Attribute(
    "AgentStatus", str, index=dex.AttributeIndex(dex.IndexType.KEYWORD)
)
CANCELLED_TURN: Final = dex.Attribute("CancelledTurn", str)
TURN_TRACE: Final = dex.Attribute("TurnTrace", TurnTrace)

# Payloads lie in maps, and only those who need them load them.
AGENT_MESSAGES: Final = dex.AttributeMap("AgentMessages", Entry)
AGENT_MESSAGE_PARTS: Final = dex.AttributeMap("AgentMessageParts", str)
FRAMEWORK_RUN_STATE: Final = dex.AttributeMap("FrameworkRunState", str)
AGENT_TOOL_CALLS: Final = dex.AttributeMap("AgentToolCalls", Entry)
AGENT_TOOL_CALL_PARTS: Final = dex.AttributeMap("AgentToolCallParts", str)
TOOL_CALL_CLAIMS: Final = dex.AttributeMap("ToolCallClaims", str)
TAKEN_STEERING: Final = dex.AttributeMap("TakenSteering", TakenSteering)
APPROVALS: Final = dex.AttributeMap("Approvals", ApprovalRecord)
TAKEN_REQUEST_IDS: Final = dex.AttributeMap("TakenRequestIds", REQUEST_IDS)
HISTORY_SUMMARY: Final = dex.AttributeMap("HistorySummary", HistorySummary)

STEERING_MESSAGES: Final = dex.Channel("SteeringMessages", SteeringMessage)
QUEUED_USER_MESSAGES: Final = dex.Channel("QueuedUserMessages", AgentUserMessage)
# SDK 1.23 may hand the values of three or more Channels that are loaded at once to one another (their message
# IDs stay right). These are, by a Step that ends a turn: with one type for both, every value can still be read.
INTERRUPT_RESOLUTIONS: Final = dex.ChannelMap("InterruptResolutions", SIGNAL)
TOOL_CALL_RESULTS: Final = dex.Channel("ToolCallResults", SIGNAL)

LOCKS: Final[Mapping[Lock, dex.AttributeLock]] = MappingProxyType(
    {
        Lock.STATE: AGENT_STATE.lock(),
        Lock.INTERRUPTS: PENDING_INTERRUPTS.lock(),
    }
)
"""Those that are the same for every call; the lock on request IDs is for one key (`loads.options_of`)."""

DEFINITIONS: Final = (
    AGENT_STATE,
    AGENT_USAGE,
    PENDING_INTERRUPTS,
    TAKEN_REQUEST_IDS,
    APPROVAL_COUNT,
    RUN_STATE_PART_COUNT,
    CANCELLED_TURN,
    AGENT_STATUS,
    TURN_TRACE,
    AGENT_MESSAGES,
    AGENT_MESSAGE_PARTS,
    FRAMEWORK_RUN_STATE,
    AGENT_TOOL_CALLS,
    AGENT_TOOL_CALL_PARTS,
    TOOL_CALL_CLAIMS,
    TAKEN_STEERING,
    APPROVALS,
    HISTORY_SUMMARY,
    STEERING_MESSAGES,
    QUEUED_USER_MESSAGES,
    INTERRUPT_RESOLUTIONS,
    TOOL_CALL_RESULTS,
)
