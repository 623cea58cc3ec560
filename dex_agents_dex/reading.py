"""From what Dex loaded to the model's views. Nothing is decided here: a view is what its class says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import SessionId, ToolCallId, TurnId
from dex_agents_model.layout import (
    Entry,
    is_final,
    read_message,
    read_run_state,
    read_shortened_tool_call,
    read_tool_call,
    run_state_keys,
)
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentUsage,
    ApprovalRecord,
    HistorySummary,
    TakenSteering,
)
from dex_agents_model.requests import ClaimToolCall, Request
from dex_agents_model.steps import CallStep, Step
from dex_agents_model.views import (
    AnswerView,
    ApprovalsView,
    ApprovalView,
    CallView,
    CompactionView,
    MessagesView,
    PendingSteering,
    PendingUserMessage,
    QueueView,
    RequestIdsView,
    ResumeView,
    RpcView,
    SessionView,
    SnapshotView,
    StepView,
    TurnView,
    UnfinishedTurnView,
)

from .loads import message_entries_of
from .message_cache import MessageCache
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_STATE,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    AGENT_USAGE,
    APPROVALS,
    CANCELLED_TURN,
    FRAMEWORK_RUN_STATE,
    HISTORY_SUMMARY,
    INTERRUPT_RESOLUTIONS,
    PENDING_INTERRUPTS,
    QUEUED_USER_MESSAGES,
    RUN_STATE_PART_COUNT,
    STEERING_MESSAGES,
    TAKEN_REQUEST_IDS,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
    TOOL_CALL_RESULTS,
)

V = TypeVar("V", bound=SessionView)


@frozen
class SessionReader:
    """Reads the views of one invocation: what its Context loaded is one snapshot."""

    context: dex.Context
    options: AgentSessionOptions
    messages: MessageCache
    overhead_tokens: int = 0

    def step_view(self, kind: type[StepView], step: Step) -> StepView:
        """What ``step`` loads. ``kind`` is what its Spec reads."""
        if issubclass(kind, TurnView):
            return self._fill(
                TurnView,
                usage=self._usage,
                messages=self._messages_behind_summary(),
                run_state=self._run_state(),
                tool_calls=self._tool_calls(),
                steering=self._taken_steering(),
                summary=self._summary(),
                overhead_tokens=self.overhead_tokens,
            )
        if issubclass(kind, CompactionView):
            return self._fill(
                CompactionView,
                usage=self._usage,
                messages=self._messages_behind_summary(),
                summary=self._summary(),
            )
        if issubclass(kind, ResumeView):
            return self._fill(
                ResumeView,
                tool_calls=self._shortened_tool_calls(),
                pending_steering=self._pending_steering(),
            )
        if issubclass(kind, UnfinishedTurnView):
            return self._fill(
                UnfinishedTurnView,
                run_state=self._run_state(),
                tool_calls=self._tool_calls(),
                claimed=self._claimed(),
                steering=self._taken_steering(),
                answers=self._waiting_answers(),
            )
        if not isinstance(step, CallStep):
            return self._fill(SessionView)
        record, claimant = self._own_tool_call(step.call), self._claimant(step.call)
        if issubclass(kind, ApprovalView):
            return self._fill(
                ApprovalView,
                record=record,
                claimant=claimant,
                interrupts=self._interrupts,
                pending_steering=self._pending_steering(),
            )
        return self._fill(CallView, record=record, claimant=claimant)

    def rpc_view(self, kind: type[RpcView], request: Request) -> RpcView:
        """What ``request`` loads. ``kind`` is what its spec reads."""
        if issubclass(kind, SnapshotView):
            return self._fill(
                SnapshotView,
                messages=self._messages(),
                usage=self._usage,
                interrupts=self._interrupts,
                tool_calls=self._shortened_tool_calls(),
                queued_message_count=QUEUED_USER_MESSAGES.size(self.context),
            )
        if issubclass(kind, MessagesView):
            return self._fill(MessagesView, messages=self._messages())
        if issubclass(kind, AnswerView):
            return self._fill(
                AnswerView,
                taken_request_ids=self._taken_request_ids,
                interrupts=self._interrupts,
            )
        if issubclass(kind, RequestIdsView):
            return self._fill(RequestIdsView, taken_request_ids=self._taken_request_ids)
        if issubclass(kind, QueueView):
            return self._fill(QueueView, queued=self._queued())
        if issubclass(kind, ApprovalsView):
            return self._fill(ApprovalsView, approvals=self._approvals())
        if isinstance(request, ClaimToolCall):
            return self._fill(
                CallView,
                record=self._shortened_tool_call(request.call),
                claimant=self._claimant(request.call),
            )
        return self._fill(SessionView)

    def _fill(self, kind: type[V], **own: object) -> V:
        """A view with what every view has, and its own."""
        cancelled: str | None = CANCELLED_TURN.get(self.context)
        return kind(
            session_id=SessionId(self.context.flow_id),
            options=self.options,
            state=self._state,
            cancelled_turn=TurnId(cancelled) if cancelled else None,
            **own,
        )

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
        return self._read_messages(AGENT_MESSAGES.get_all_instance_keys(self.context))

    def _messages_behind_summary(self) -> tuple[AgentMessage, ...]:
        entries = message_entries_of(self._state)
        if entries is None:
            return self._messages()
        return self._read_messages(entry.instance for entry in entries)

    def _read_messages(self, keys: Iterable[str]) -> tuple[AgentMessage, ...]:
        return tuple(
            self.messages.get(self.context.run_id, key, partial(self._read_message, key))
            for key in keys
        )

    def _read_message(self, key: str) -> AgentMessage:
        parts = _Instances(AGENT_MESSAGE_PARTS, self.context)
        return read_message(AGENT_MESSAGES.get(self.context, key), parts)

    def _summary(self) -> HistorySummary | None:
        keys = HISTORY_SUMMARY.get_all_instance_keys(self.context)
        return HISTORY_SUMMARY.get(self.context, keys[-1]) if keys else None

    def _run_state(self) -> str | None:
        keys = run_state_keys(RUN_STATE_PART_COUNT.get(self.context))
        return read_run_state({key: FRAMEWORK_RUN_STATE.get(self.context, key) for key in keys})

    def _tool_calls(self) -> tuple[AgentToolCall, ...]:
        parts = _Instances(AGENT_TOOL_CALL_PARTS, self.context)
        return _in_model_order(read_tool_call(entry, parts) for entry in self._entries())

    def _shortened_tool_calls(self) -> tuple[AgentToolCall, ...]:
        return _in_model_order(map(read_shortened_tool_call, self._entries()))

    def _entries(self) -> Iterator[Entry]:
        for key in AGENT_TOOL_CALLS.get_all_instance_keys(self.context):
            yield AGENT_TOOL_CALLS.get(self.context, key)

    def _own_tool_call(self, call: ToolCallId) -> AgentToolCall | None:
        entry: Entry | None = AGENT_TOOL_CALLS.get(self.context, call)
        if entry is None:
            return None
        if is_final(entry):
            return read_shortened_tool_call(entry)
        return read_tool_call(entry, _Instances(AGENT_TOOL_CALL_PARTS, self.context))

    def _shortened_tool_call(self, call: ToolCallId) -> AgentToolCall | None:
        entry: Entry | None = AGENT_TOOL_CALLS.get(self.context, call)
        return None if entry is None else read_shortened_tool_call(entry)

    def _claimant(self, call: ToolCallId) -> str | None:
        return TOOL_CALL_CLAIMS.get(self.context, call)

    def _claimed(self) -> frozenset[ToolCallId]:
        return frozenset(map(ToolCallId, TOOL_CALL_CLAIMS.get_all_instance_keys(self.context)))

    def _taken_steering(self) -> tuple[TakenSteering, ...]:
        keys = TAKEN_STEERING.get_all_instance_keys(self.context)
        return tuple(TAKEN_STEERING.get(self.context, key) for key in keys)

    def _pending_steering(self) -> tuple[PendingSteering, ...]:
        return tuple(
            PendingSteering(message.message_id, message.value)
            for message in STEERING_MESSAGES.pending_messages(self.context)
        )

    def _waiting_answers(self) -> tuple[AgentInterruptResolution, ...]:
        pending = [
            *TOOL_CALL_RESULTS.pending_messages(self.context),
            *(
                message
                for key in INTERRUPT_RESOLUTIONS.get_all_instance_keys(self.context)
                for message in INTERRUPT_RESOLUTIONS.pending_messages(self.context, key)
            ),
        ]
        told = (message.value for message in pending)
        return tuple(signal for signal in told if isinstance(signal, AgentInterruptResolution))

    def _queued(self) -> tuple[PendingUserMessage, ...]:
        return tuple(
            PendingUserMessage(message.message_id, message.value)
            for message in QUEUED_USER_MESSAGES.pending_messages(self.context)
        )

    def _approvals(self) -> tuple[ApprovalRecord, ...]:
        keys = APPROVALS.get_all_instance_keys(self.context)
        kept = (APPROVALS.get(self.context, key) for key in keys)
        return tuple(sorted(kept, key=lambda record: (record.turn_id.number, record.decided_at)))


def _in_model_order(records: Iterable[AgentToolCall]) -> tuple[AgentToolCall, ...]:
    return tuple(sorted(records, key=lambda record: record.deferral_order))


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
