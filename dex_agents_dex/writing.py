"""From the model's writes and publishes to Dex: each is staged in the invocation's Context, in one commit."""

from __future__ import annotations

from typing import assert_never

import dex
from attrs import frozen

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClaimCall,
    ClearTurn,
    DrainChannels,
    DropMessages,
    InterruptResolved,
    Publish,
    PutToolCall,
    RecordApproval,
    SetCancelledTurn,
    SetInterrupts,
    SetRunState,
    SetState,
    SetSummary,
    SetTakenRequestIds,
    SetUsage,
    SteeringQueued,
    TakeSteering,
    ToolCallFinished,
    UserMessageQueued,
    WithdrawQueued,
    Write,
)
from dex_agents_model.ids import InterruptId
from dex_agents_model.layout import (
    Entry,
    lay_message,
    lay_run_state,
    lay_tool_call,
    message_key,
    run_state_keys,
)
from dex_agents_model.performing import user_message
from dex_agents_model.records import AgentInterrupt, AgentMessage, AgentState, shown_status
from dex_agents_model.runner import AgentFrameworkRunner

from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_STATE,
    AGENT_STATUS,
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


@frozen
class SessionWriter:
    """Stages what one invocation commits."""

    context: dex.Context
    runner: AgentFrameworkRunner

    def write(self, write: Write) -> None:
        """Stage one write.

        Raises:
            ContractBroken: the runner made something other than a user message of a user's text.
        """
        context = self.context
        match write:
            case SetState(state):
                AGENT_STATE.set(context, state)
                self._show_status()
            case SetUsage(usage):
                AGENT_USAGE.set(context, usage)
            case SetInterrupts(interrupts):
                PENDING_INTERRUPTS.set(context, interrupts)
                self._show_status()
            case SetTakenRequestIds(request_ids):
                TAKEN_REQUEST_IDS.set(context, request_ids)
            case PutToolCall(record):
                self._put_tool_call(record)
            case SetRunState(run_state):
                self._set_run_state(run_state)
            case AppendMessages(messages):
                for message in messages:
                    self._append(message)
            case AppendUserMessage(sequence, turn, message):
                self._append(
                    user_message(self.runner, sequence=sequence, turn=turn, message=message)
                )
            case ClearTurn():
                self._clear_turn()
            case SetSummary(summary):
                for key in HISTORY_SUMMARY.get_all_instance_keys(context):
                    HISTORY_SUMMARY.delete(context, key)
                HISTORY_SUMMARY.set(context, message_key(summary.through_sequence), summary)
            case DropMessages(sequences):
                self._drop_messages(sequences)
            case TakeSteering():
                self._take_steering(write)
            case SetCancelledTurn(turn):
                CANCELLED_TURN.set(context, str(turn))
            case ClaimCall(call, claimant):
                TOOL_CALL_CLAIMS.set(context, call, claimant)
            case DrainChannels(interrupt_ids):
                self._drain(interrupt_ids)
            case WithdrawQueued(channel_message_id):
                QUEUED_USER_MESSAGES.delete(context, channel_message_id)
            case RecordApproval(record):
                key = f"{record.turn_id.number:012d}.{record.tool_call_id}"
                APPROVALS.set(context, key, record)
            case _:
                assert_never(write)

    def publish(self, publish: Publish) -> None:
        """Stage one message to a Channel."""
        match publish:
            case ToolCallFinished():
                TOOL_CALL_RESULTS.publish(self.context, publish.message)
            case UserMessageQueued(message):
                QUEUED_USER_MESSAGES.publish(self.context, message)
            case SteeringQueued(steering):
                STEERING_MESSAGES.publish(self.context, steering)
            case InterruptResolved(resolution):
                INTERRUPT_RESOLUTIONS.publish(self.context, resolution.interrupt_id, resolution)
            case _:
                assert_never(publish)

    def _show_status(self) -> None:
        state: AgentState | None = AGENT_STATE.get(self.context)
        interrupts: tuple[AgentInterrupt, ...] | None = PENDING_INTERRUPTS.get(self.context)
        if state is not None:
            AGENT_STATUS.set(self.context, shown_status(state, interrupts or ()).value)

    def _put_tool_call(self, record: AgentToolCall) -> None:
        laid = lay_tool_call(record)
        AGENT_TOOL_CALLS.set(self.context, record.tool_call_id, laid.entry)
        for key, part in laid.parts.items():
            AGENT_TOOL_CALL_PARTS.set(self.context, key, part)

    def _append(self, message: AgentMessage) -> None:
        laid = lay_message(message)
        AGENT_MESSAGES.set(self.context, message_key(message.sequence), laid.entry)
        for key, part in laid.parts.items():
            AGENT_MESSAGE_PARTS.set(self.context, key, part)

    def _drop_messages(self, sequences: tuple[int, ...]) -> None:
        for key in map(message_key, sequences):
            entry: Entry | None = AGENT_MESSAGES.get(self.context, key)
            for part in entry.part_keys() if entry else ():
                AGENT_MESSAGE_PARTS.delete(self.context, part)
            AGENT_MESSAGES.delete(self.context, key)

    def _set_run_state(self, run_state: str) -> None:
        parts = lay_run_state(run_state)
        self._drop_run_state_parts(from_number=len(parts))
        for key, part in parts.items():
            FRAMEWORK_RUN_STATE.set(self.context, key, part)
        RUN_STATE_PART_COUNT.set(self.context, len(parts))

    def _drop_run_state_parts(self, *, from_number: int) -> None:
        for key in run_state_keys(RUN_STATE_PART_COUNT.get(self.context))[from_number:]:
            FRAMEWORK_RUN_STATE.delete(self.context, key)

    def _clear_turn(self) -> None:
        self._drop_run_state_parts(from_number=0)
        RUN_STATE_PART_COUNT.set(self.context, 0)
        for tool_call_id in AGENT_TOOL_CALLS.get_all_instance_keys(self.context):
            for key in AGENT_TOOL_CALLS.get(self.context, tool_call_id).part_keys():
                AGENT_TOOL_CALL_PARTS.delete(self.context, key)
            AGENT_TOOL_CALLS.delete(self.context, tool_call_id)
        for tool_call_id in TOOL_CALL_CLAIMS.get_all_instance_keys(self.context):
            TOOL_CALL_CLAIMS.delete(self.context, tool_call_id)
        for key in TAKEN_STEERING.get_all_instance_keys(self.context):
            TAKEN_STEERING.delete(self.context, key)

    def _take_steering(self, write: TakeSteering) -> None:
        for number, taken in enumerate(write.taken, start=write.first):
            TAKEN_STEERING.set(self.context, f"{number:06d}", taken)
        for channel_message_id in write.channel_message_ids:
            STEERING_MESSAGES.delete(self.context, channel_message_id)

    def _drain(self, interrupt_ids: tuple[InterruptId, ...]) -> None:
        for result in TOOL_CALL_RESULTS.pending_messages(self.context):
            TOOL_CALL_RESULTS.delete(self.context, result.message_id)
        for key in interrupt_ids:
            for answer in INTERRUPT_RESOLUTIONS.pending_messages(self.context, key):
                INTERRUPT_RESOLUTIONS.delete(self.context, key, answer.message_id)
