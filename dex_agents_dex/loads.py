"""What Dex is to load for a Step or an RPC: no more than it needs, and never more than fits a frame.

A frame holds 4 MiB. What is left out here is asked for by the Step itself (`entries`), so nothing
depends on these loads but speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import dex
from attrs import frozen

from dex_agents_model.ids import ToolCallId
from dex_agents_model.layout import (
    message_key,
    request_ids_key,
    run_state_keys,
    steering_key,
)
from dex_agents_model.records import AgentState, RunningModel, RunningTools
from dex_agents_model.requests import ClaimToolCall, IdentifiedRequest, Request
from dex_agents_model.steps import CallSingleAttemptTool, CallStep, CallTool, Step
from dex_agents_model.table import SPEC_OF
from dex_agents_model.views import (
    ApprovalView,
    CompactionView,
    QueueingView,
    QueueView,
    ResumeView,
    RpcView,
    SteeringView,
    StepView,
    TurnView,
    UnfinishedTurnView,
)

from .known import Known
from .record_cache import RecordCache
from .schema import (
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
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

# Together they stay below 4 MiB, whatever the entries hold, and far below it in general.
_MOST_MESSAGES: Final = 24
_MOST_CALLS: Final = 32
_MOST_CALL_PARTS: Final = 2
_MOST_RUN_STATE_PARTS: Final = 16
_MOST_STEERING: Final = 1


@frozen
class Loads:
    """What a view needs beside the singletons and exact entries: whole maps, and what waits in Channels."""

    maps: tuple[dex.AttributeMap[Any], ...] = ()
    channels: tuple[dex.Channel[Any], ...] = ()
    channel_maps: tuple[dex.ChannelMap[Any], ...] = ()


_NOTHING: Final = Loads()
_LOADS_OF: Final[Mapping[type[object], Loads]] = MappingProxyType(
    {
        ResumeView: Loads(channels=(STEERING_MESSAGES,)),
        UnfinishedTurnView: Loads(
            channels=(TOOL_CALL_RESULTS,), channel_maps=(INTERRUPT_RESOLUTIONS,)
        ),
        ApprovalView: Loads(channels=(STEERING_MESSAGES,)),
        QueueView: Loads(channels=(QUEUED_USER_MESSAGES,)),
        QueueingView: Loads(channels=(QUEUED_USER_MESSAGES,)),
        SteeringView: Loads(channels=(STEERING_MESSAGES,)),
    }
)


def loads_of(view: type[StepView | RpcView]) -> Loads:
    """What Dex is to load for ``view``, whatever the Step or the request is about."""
    return _LOADS_OF.get(view, _NOTHING)


def options_of(request: Request) -> dex.RPCInvokeOptions:
    """The entries that Dex is to load, and to lock, for ``request`` alone."""
    if isinstance(request, ClaimToolCall):
        return dex.RPCInvokeOptions(load_attribute_map_instances=head_entries_of(request.call))
    if isinstance(request, IdentifiedRequest):
        key = request_ids_key(request.request_id)
        return dex.RPCInvokeOptions(
            load_attribute_map_instances=(TAKEN_REQUEST_IDS.load(key),),
            lock_attribute_map_instances=(TAKEN_REQUEST_IDS.lock(key),),
        )
    return dex.RPCInvokeOptions()


def head_entries_of(call: ToolCallId) -> tuple[dex.AttributeMapLoad, ...]:
    """The entries that tell where one tool call stands, without its long texts."""
    return (AGENT_TOOL_CALLS.load(call), TOOL_CALL_CLAIMS.load(call))


@frozen
class Loading:
    """What Dex is to load for the next Steps of one run of a session."""

    run_id: str
    known: Known
    cache: RecordCache

    def entries_for(
        self, step: type[Step], call: ToolCallId | None
    ) -> tuple[dex.AttributeMapLoad, ...]:
        """The entries that the ``step`` about ``call`` reads and this Worker does not have already."""
        reads, state = SPEC_OF[step].reads, self.known.next_state
        if call is not None:
            return self._call(call)
        if state is None:
            return ()
        found: list[dex.AttributeMapLoad] = []
        if issubclass(reads, TurnView | CompactionView):
            found += self._history(state)
        if isinstance(state, RunningModel | RunningTools):
            if issubclass(reads, TurnView | UnfinishedTurnView):
                found += self._turn(state)
            if issubclass(reads, UnfinishedTurnView):
                found += map(TOOL_CALL_CLAIMS.load, state.tool_call_ids[-_MOST_CALLS:])
            if issubclass(reads, ResumeView) and isinstance(state, RunningTools):
                found += map(AGENT_TOOL_CALLS.load, state.latest_tool_call_ids[:_MOST_CALLS])
        return tuple(found)

    def timeout_of(self, step: Step) -> timedelta | None:
        """How long an attempt of the tool that ``step`` runs may take, when that was said of the tool."""
        if not isinstance(step, CallTool | CallSingleAttemptTool):
            return None
        record = self.known.records.get(step.call)
        seconds = None if record is None else record.call.timeout_seconds
        return None if seconds is None else timedelta(seconds=seconds)

    def _call(self, call: ToolCallId) -> tuple[dex.AttributeMapLoad, ...]:
        parts = self.known.call_part_keys(call)
        return (*head_entries_of(call), *map(AGENT_TOOL_CALL_PARTS.load, parts))

    def _history(self, state: AgentState) -> Iterator[dex.AttributeMapLoad]:
        if state.history.summarised_through:
            yield HISTORY_SUMMARY.load(message_key(state.history.summarised_through))
        newest_first = reversed(state.history.behind_summary(state.message_count))
        kept = self.cache.messages(self.run_id)
        for sequence in islice(newest_first, _MOST_MESSAGES):
            if sequence in kept:
                break
            yield AGENT_MESSAGES.load(message_key(sequence))

    def _turn(self, state: RunningModel | RunningTools) -> Iterator[dex.AttributeMapLoad]:
        kept = self.cache.final_calls(self.run_id, state.active_turn_id)
        new = [call for call in state.tool_call_ids if call not in kept]
        for call in new[:_MOST_CALLS]:
            yield AGENT_TOOL_CALLS.load(call)
        entries = (self.known.call_entries.get(call) for call in new)
        parts = (key for entry in entries if entry is not None for key in entry.part_keys())
        for key in islice(parts, _MOST_CALL_PARTS):
            yield AGENT_TOOL_CALL_PARTS.load(key)
        for key in run_state_keys(min(self.known.run_state_part_count, _MOST_RUN_STATE_PARTS)):
            yield FRAMEWORK_RUN_STATE.load(key)
        for number in range(min(state.steering_count, _MOST_STEERING)):
            yield TAKEN_STEERING.load(steering_key(number))


def call_of(step: Step) -> ToolCallId | None:
    """The one tool call that ``step`` is about."""
    return step.call if isinstance(step, CallStep) else None
