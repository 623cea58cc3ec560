"""From what Dex loaded to the model's views. Nothing is decided here: a view is what its class says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.ids import SessionId
from dex_agents_model.layout import (
    Entry,
    is_final,
    lay_tool_call,
    read_message,
    read_run_state,
    read_shortened_tool_call,
    read_tool_call,
    run_state_keys,
)
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import AgentInterrupt, AgentMessage, AgentState, AgentUsage
from dex_agents_model.steps import CallStep, Step
from dex_agents_model.views import (
    AnswerView,
    ApprovalView,
    CallView,
    MessagesView,
    QueueView,
    RpcView,
    SessionView,
    SnapshotView,
    StepView,
    TurnRecordsView,
    TurnView,
)

from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_STATE,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    AGENT_USAGE,
    FRAMEWORK_RUN_STATE,
    PENDING_INTERRUPTS,
    QUEUED_USER_MESSAGES,
    RUN_STATE_PART_COUNT,
    TAKEN_REQUEST_IDS,
)

_MapLoads: TypeAlias = tuple[dex.AttributeMap[Any], ...]
_EntryLoads: TypeAlias = tuple[dex.AttributeMapLoad, ...]

MAPS_OF: Final[Mapping[type[StepView | RpcView], _MapLoads]] = MappingProxyType(
    {
        TurnView: (
            AGENT_MESSAGES,
            AGENT_MESSAGE_PARTS,
            FRAMEWORK_RUN_STATE,
            AGENT_TOOL_CALLS,
            AGENT_TOOL_CALL_PARTS,
        ),
        TurnRecordsView: (AGENT_TOOL_CALLS,),
        MessagesView: (AGENT_MESSAGES, AGENT_MESSAGE_PARTS),
        SnapshotView: (AGENT_MESSAGES, AGENT_MESSAGE_PARTS, AGENT_TOOL_CALLS),
    }
)
"""The maps that a view needs whole. A view that is not named needs none."""


def entries_of(record: AgentToolCall) -> _EntryLoads:
    """Exactly the entries that a Step needs which is about this one tool call."""
    keys = lay_tool_call(record).entry.part_keys()
    return (
        AGENT_TOOL_CALLS.load(record.tool_call_id),
        *(AGENT_TOOL_CALL_PARTS.load(key) for key in keys),
    )


@frozen
class SessionReader:
    """Reads the views of one invocation: what its Context loaded is one snapshot."""

    context: dex.Context
    options: AgentSessionOptions

    def step_view(self, kind: type[StepView], step: Step) -> StepView:
        """What ``step`` loads. ``kind`` is what its Spec reads."""
        if issubclass(kind, TurnView):
            return TurnView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                usage=self._usage,
                messages=self._messages(),
                run_state=self._run_state(),
                tool_calls=self._tool_calls(shortened=False),
            )
        if issubclass(kind, TurnRecordsView):
            return TurnRecordsView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                tool_calls=self._tool_calls(shortened=True),
            )
        if issubclass(kind, ApprovalView):
            return ApprovalView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                record=self._own_tool_call(step),
                interrupts=self._interrupts,
            )
        if issubclass(kind, CallView):
            return CallView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                record=self._own_tool_call(step),
            )
        return SessionView(session_id=self._session_id, options=self.options, state=self._state)

    def rpc_view(self, kind: type[RpcView]) -> RpcView:
        """What an RPC loads. ``kind`` is what its spec reads."""
        if issubclass(kind, SnapshotView):
            return SnapshotView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                messages=self._messages(),
                usage=self._usage,
                interrupts=self._interrupts,
                tool_calls=self._tool_calls(shortened=True),
                queued_message_count=QUEUED_USER_MESSAGES.size(self.context),
            )
        if issubclass(kind, MessagesView):
            return MessagesView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                messages=self._messages(),
            )
        if issubclass(kind, AnswerView):
            return AnswerView(
                session_id=self._session_id,
                options=self.options,
                state=self._state,
                taken_request_ids=self._taken_request_ids,
                interrupts=self._interrupts,
            )
        return QueueView(
            session_id=self._session_id,
            options=self.options,
            state=self._state,
            taken_request_ids=self._taken_request_ids,
        )

    @property
    def _session_id(self) -> SessionId:
        return SessionId(self.context.flow_id)

    # A singleton that was never set reads as None, whatever its type says.

    @property
    def _state(self) -> AgentState | None:
        return AGENT_STATE.get(self.context)

    @property
    def _usage(self) -> AgentUsage:
        usage: AgentUsage | None = AGENT_USAGE.get(self.context)
        return AgentUsage() if usage is None else usage

    @property
    def _interrupts(self) -> tuple[AgentInterrupt, ...]:
        return PENDING_INTERRUPTS.get(self.context) or ()

    @property
    def _taken_request_ids(self) -> tuple[str, ...]:
        return TAKEN_REQUEST_IDS.get(self.context) or ()

    def _messages(self) -> tuple[AgentMessage, ...]:
        parts = _Instances(AGENT_MESSAGE_PARTS, self.context)
        return tuple(
            read_message(AGENT_MESSAGES.get(self.context, key), parts)
            for key in AGENT_MESSAGES.get_all_instance_keys(self.context)
        )

    def _run_state(self) -> str | None:
        keys = run_state_keys(RUN_STATE_PART_COUNT.get(self.context))
        return read_run_state({key: FRAMEWORK_RUN_STATE.get(self.context, key) for key in keys})

    def _tool_calls(self, *, shortened: bool) -> tuple[AgentToolCall, ...]:
        parts = _Instances(AGENT_TOOL_CALL_PARTS, self.context)
        entries = (
            AGENT_TOOL_CALLS.get(self.context, key)
            for key in AGENT_TOOL_CALLS.get_all_instance_keys(self.context)
        )
        records = (
            read_shortened_tool_call(entry) if shortened else read_tool_call(entry, parts)
            for entry in entries
        )
        return tuple(sorted(records, key=lambda record: record.deferral_order))

    def _own_tool_call(self, step: Step) -> AgentToolCall | None:
        if not isinstance(step, CallStep):
            raise StateCorrupt(f"{step} is about no tool call")
        entry: Entry | None = AGENT_TOOL_CALLS.get(self.context, step.call)
        if entry is None:
            return None
        if is_final(entry):
            return read_shortened_tool_call(entry)
        return read_tool_call(entry, _Instances(AGENT_TOOL_CALL_PARTS, self.context))


class _Instances(Mapping[str, str]):
    """The loaded entries of a map of text, each decoded only when it is asked for."""

    def __init__(self, texts: dex.AttributeMap[str], context: dex.Context) -> None:
        self._texts = texts
        self._context = context

    def __getitem__(self, key: str) -> str:
        text: str | None = self._texts.get(self._context, key)
        if text is None:
            raise KeyError(key)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts.get_all_instance_keys(self._context))

    def __len__(self) -> int:
        return self._texts.get_map_size(self._context)
