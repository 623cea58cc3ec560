"""From what Dex loaded to the model's views. Nothing is decided here: a view is what its class says."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import SessionId, ToolCallId, TurnId
from dex_agents_model.layout import Entry, read_shortened_tool_call, request_ids_key
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentInterrupt,
    AgentState,
    AgentUsage,
    RunningModel,
    RunningTools,
)
from dex_agents_model.requests import ClaimToolCall, IdentifiedRequest, Request
from dex_agents_model.views import (
    AnswerView,
    CallView,
    PendingSteering,
    PendingUserMessage,
    QueueingView,
    QueueView,
    RpcView,
    SessionView,
    SnapshotView,
    SteeringView,
)

from .schema import (
    AGENT_STATE,
    AGENT_TOOL_CALLS,
    AGENT_USAGE,
    APPROVAL_COUNT,
    CANCELLED_TURN,
    PENDING_INTERRUPTS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TAKEN_REQUEST_IDS,
    TOOL_CALL_CLAIMS,
)

V = TypeVar("V", bound=SessionView)


@frozen
class SessionReader:
    """Reads what travels with one invocation: what its Context loaded is one snapshot."""

    context: dex.Context
    options: AgentSessionOptions

    def rpc_view(self, kind: type[RpcView], request: Request) -> RpcView:
        """What ``request`` loads. ``kind`` is what its spec reads.

        A snapshot's messages are not among it: whoever asks for it reads them by pages.
        """
        if issubclass(kind, SnapshotView):
            return self.fill(
                SnapshotView,
                messages=(),
                usage=self.usage,
                interrupts=self.interrupts,
                tool_calls=self._loaded_tool_calls(),
                queued_message_count=QUEUED_USER_MESSAGES.size(self.context),
                approval_count=self.approval_count,
            )
        if isinstance(request, IdentifiedRequest):
            return self._identified_view(kind, request)
        if issubclass(kind, QueueView):
            return self.fill(QueueView, queued=self._queued())
        if isinstance(request, ClaimToolCall):
            return self.fill(
                CallView,
                record=self._shortened_tool_call(request.call),
                claimant=self.claimant(request.call),
            )
        return self.fill(SessionView)

    def fill(self, kind: type[V], **own: object) -> V:
        """A view with what every view has, and its own."""
        cancelled: str | None = CANCELLED_TURN.get(self.context)
        return kind(
            session_id=SessionId(self.context.flow_id),
            options=self.options,
            state=self.state,
            cancelled_turn=TurnId(cancelled) if cancelled else None,
            **own,
        )

    # A singleton that was never set reads as None, whatever its type says.

    @cached_property
    def state(self) -> AgentState | None:
        return AGENT_STATE.get(self.context)

    @property
    def usage(self) -> AgentUsage:
        usage: AgentUsage | None = AGENT_USAGE.get(self.context)
        return AgentUsage() if usage is None else usage

    @property
    def interrupts(self) -> tuple[AgentInterrupt, ...]:
        return PENDING_INTERRUPTS.get(self.context) or ()

    @property
    def approval_count(self) -> int:
        return APPROVAL_COUNT.get(self.context) or 0

    def claimant(self, call: ToolCallId) -> str | None:
        return TOOL_CALL_CLAIMS.get(self.context, call)

    def pending_steering(self) -> tuple[PendingSteering, ...]:
        return tuple(
            PendingSteering(message.message_id, message.value)
            for message in STEERING_MESSAGES.pending_messages(self.context)
        )

    def _identified_view(self, kind: type[RpcView], request: IdentifiedRequest) -> RpcView:
        taken: tuple[str, ...] = ()
        if request.request_id:  # an older client asks without one, and has none loaded
            key = request_ids_key(request.request_id)
            taken = TAKEN_REQUEST_IDS.get(self.context, key) or ()
        if issubclass(kind, QueueingView):
            return self.fill(QueueingView, taken_request_ids=taken, queued=self._queued())
        if issubclass(kind, SteeringView):
            return self.fill(
                SteeringView,
                taken_request_ids=taken,
                interrupts=self.interrupts,
                pending_steering=self.pending_steering(),
            )
        return self.fill(AnswerView, taken_request_ids=taken, interrupts=self.interrupts)

    def _loaded_tool_calls(self) -> tuple[AgentToolCall, ...]:
        state = self.state
        if not isinstance(state, RunningModel | RunningTools):
            return ()
        found: list[AgentToolCall] = []
        for call in state.tool_call_ids:
            try:
                record = self._shortened_tool_call(call)
            except dex.AttributeMapNotLoadedError:
                continue  # it was not asked for
            if record is not None:
                found.append(record)
        return tuple(found)

    def _shortened_tool_call(self, call: ToolCallId) -> AgentToolCall | None:
        entry: Entry | None = AGENT_TOOL_CALLS.get(self.context, call)
        return None if entry is None else read_shortened_tool_call(entry)

    def _queued(self) -> tuple[PendingUserMessage, ...]:
        return tuple(
            PendingUserMessage(message.message_id, message.value)
            for message in QUEUED_USER_MESSAGES.pending_messages(self.context)
        )
