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
    approval_key,
    lay_message,
    lay_run_state,
    lay_tool_call,
    message_key,
    request_ids_key,
    run_state_keys,
    steering_key,
)
from dex_agents_model.policy import EFFECT_RULES
from dex_agents_model.records import (
    AgentInterrupt,
    AgentMessage,
    HistorySummary,
    RunningModel,
    RunningTools,
)
from dex_agents_model.runner import AgentFrameworkRunner
from dex_agents_model.status import shown_status
from dex_agents_model.user_messages import user_message

from .known import Known
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_STATE,
    AGENT_STATUS,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    AGENT_USAGE,
    APPROVAL_COUNT,
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
    known: Known

    def write(self, write: Write) -> None:
        """Stage one write.

        Raises:
            ContractBroken: the runner made something other than a user message of a user's text.
        """
        context = self.context
        match write:
            case SetState(state):
                AGENT_STATE.set(context, state)
                self.known.next_state = state
                self._show_status()
            case SetUsage(usage):
                AGENT_USAGE.set(context, usage)
            case SetInterrupts(interrupts):
                PENDING_INTERRUPTS.set(context, interrupts)
                self._show_status()
            case SetTakenRequestIds(request_ids):
                TAKEN_REQUEST_IDS.set(context, request_ids_key(request_ids[-1]), request_ids)
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
                self._set_summary(summary)
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
            case RecordApproval(record, number):
                APPROVALS.set(context, approval_key(number), record)
                APPROVAL_COUNT.set(context, number + 1)
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
        state = self.known.next_state
        interrupts: tuple[AgentInterrupt, ...] | None = PENDING_INTERRUPTS.get(self.context)
        if state is not None:
            AGENT_STATUS.set(self.context, shown_status(state, interrupts or ()).value)

    def _put_tool_call(self, record: AgentToolCall) -> None:
        call, laid = record.tool_call_id, lay_tool_call(record)
        stale = set(self.known.call_part_keys(call)) - set(laid.entry.part_keys())
        for key in sorted(stale):
            AGENT_TOOL_CALL_PARTS.delete(self.context, key)
        AGENT_TOOL_CALLS.set(self.context, call, laid.entry)
        for key, part in laid.parts.items():
            AGENT_TOOL_CALL_PARTS.set(self.context, key, part)
        self.known.records[call] = record
        self.known.call_entries[call] = laid.entry

    def _append(self, message: AgentMessage) -> None:
        laid = lay_message(message)
        AGENT_MESSAGES.set(self.context, message_key(message.sequence), laid.entry)
        for key, part in laid.parts.items():
            AGENT_MESSAGE_PARTS.set(self.context, key, part)

    def _set_summary(self, summary: HistorySummary) -> None:
        state = self.known.state
        before = 0 if state is None else state.history.summarised_through
        if before:
            HISTORY_SUMMARY.delete(self.context, message_key(before))
        HISTORY_SUMMARY.set(self.context, message_key(summary.through_sequence), summary)

    def _drop_messages(self, sequences: tuple[int, ...]) -> None:
        for sequence in sequences:
            for part in self.known.summarised_entries[sequence].part_keys():
                AGENT_MESSAGE_PARTS.delete(self.context, part)
            AGENT_MESSAGES.delete(self.context, message_key(sequence))

    def _set_run_state(self, run_state: str) -> None:
        """Store the parts that differ from what was read; most of a run state stays as it grows."""
        before = lay_run_state(self.known.run_state or "")
        parts = lay_run_state(run_state)
        self._drop_run_state_parts(from_number=len(parts))
        for key, part in parts.items():
            if before.get(key) != part:
                FRAMEWORK_RUN_STATE.set(self.context, key, part)
        RUN_STATE_PART_COUNT.set(self.context, len(parts))
        self.known.run_state_part_count = len(parts)

    def _drop_run_state_parts(self, *, from_number: int) -> None:
        for key in run_state_keys(RUN_STATE_PART_COUNT.get(self.context))[from_number:]:
            FRAMEWORK_RUN_STATE.delete(self.context, key)

    def _clear_turn(self) -> None:
        self._drop_run_state_parts(from_number=0)
        RUN_STATE_PART_COUNT.set(self.context, 0)
        self.known.run_state_part_count = 0
        state = self.known.state
        if not isinstance(state, RunningModel | RunningTools):
            return
        for call in state.tool_call_ids:
            for key in self.known.call_part_keys(call):
                AGENT_TOOL_CALL_PARTS.delete(self.context, key)
            AGENT_TOOL_CALLS.delete(self.context, call)
            if EFFECT_RULES[self.known.records[call].effect].is_single_attempt:
                TOOL_CALL_CLAIMS.delete(self.context, call)
        for number in range(state.steering_count):
            TAKEN_STEERING.delete(self.context, steering_key(number))

    def _take_steering(self, write: TakeSteering) -> None:
        for number, taken in enumerate(write.taken, start=write.first):
            TAKEN_STEERING.set(self.context, steering_key(number), taken)
        for channel_message_id in write.channel_message_ids:
            STEERING_MESSAGES.delete(self.context, channel_message_id)

    def _drain(self, interrupt_ids: tuple[InterruptId, ...]) -> None:
        for result in TOOL_CALL_RESULTS.pending_messages(self.context):
            TOOL_CALL_RESULTS.delete(self.context, result.message_id)
        for key in interrupt_ids:
            for answer in INTERRUPT_RESOLUTIONS.pending_messages(self.context, key):
                INTERRUPT_RESOLUTIONS.delete(self.context, key, answer.message_id)
