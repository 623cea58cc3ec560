"""From the model's writes and publishes to text: what one commit does to a simulated session's storage.

As on an engine, a commit deletes what its own snapshot showed, and nothing that came after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, assert_never

from attrs import frozen

from ..decision import (
    AppendMessages,
    AppendUserMessage,
    ClaimCall,
    ClearTurn,
    DrainChannels,
    DropMessages,
    PutToolCall,
    RecordApproval,
    SetCancelledTurn,
    SetInterrupts,
    SetRunState,
    SetState,
    SetSummary,
    SetTakenRequestIds,
    SetUsage,
    TakeSteering,
    WithdrawQueued,
    Write,
)
from ..layout import (
    Laid,
    approval_key,
    lay_message,
    lay_run_state,
    lay_tool_call,
    message_key,
    steering_key,
)
from ..records import (
    AgentInterrupt,
    AgentMessage,
    AgentState,
    AgentUsage,
    ApprovalRecord,
    HistorySummary,
    TakenSteering,
)
from ..runner import AgentFrameworkRunner
from ..user_messages import user_message
from ..wire import dump
from .channels import (
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TOOL_CALL_RESULTS,
)
from .stored import (
    APPROVAL_COUNT,
    APPROVALS,
    CALL_PARTS,
    CALLS,
    CANCELLED_TURN,
    CLAIMS,
    INTERRUPTS,
    MESSAGE_PARTS,
    MESSAGES,
    REQUEST_IDS,
    RUN_STATE,
    STATE,
    SUMMARY,
    TAKEN_STEERING,
    USAGE,
    Records,
)

_OF_A_TURN: Final = (RUN_STATE, CALLS, CALL_PARTS, CLAIMS, TAKEN_STEERING)


@frozen
class Edit:
    """What one commit does to what is stored. ``taken`` are messages to delete, as Channel and text."""

    deleted: frozenset[str]
    put: Mapping[str, str]
    taken: tuple[tuple[str, str], ...]

    def of(self, records: Records) -> Records:
        """``records`` after the commit."""
        if not self.put and not self.deleted:
            return records
        kept = (pair for pair in records if pair[0] not in self.put and pair[0] not in self.deleted)
        return tuple(sorted((*kept, *self.put.items())))


def edit_for(writes: tuple[Write, ...], snapshot: Records, runner: AgentFrameworkRunner) -> Edit:
    """``writes``, in their order and decided on ``snapshot``, as one edit.

    Raises:
        ContractBroken: the runner builds no user message out of a text.
    """
    deleted: set[str] = set()
    put: dict[str, str] = {}
    taken: list[tuple[str, str]] = []
    for write in writes:
        gone = _deleted(write, snapshot)
        deleted |= gone
        put = {key: text for key, text in put.items() if key not in gone} | _put(write, runner)
        taken += _taken(write, snapshot)
    return Edit(frozenset(deleted) - put.keys(), put, tuple(taken))


def _put(write: Write, runner: AgentFrameworkRunner) -> dict[str, str]:
    match write:
        case SetState(state):
            return {STATE: _text(dump(state, AgentState))}
        case SetUsage(usage):
            return {USAGE: _text(dump(usage, AgentUsage))}
        case SetInterrupts(interrupts):
            return {INTERRUPTS: _text(dump(interrupts, tuple[AgentInterrupt, ...]))}
        case SetTakenRequestIds(request_ids):
            return {REQUEST_IDS: _text(dump(request_ids, tuple[str, ...]))}
        case SetCancelledTurn(turn):
            return {CANCELLED_TURN: str(turn)}
        case SetRunState(run_state):
            return {RUN_STATE + key: part for key, part in lay_run_state(run_state).items()}
        case PutToolCall(record):
            return _laid(CALLS + record.tool_call_id, CALL_PARTS, lay_tool_call(record))
        case ClaimCall(call, claimant):
            return {CLAIMS + call: claimant}
        case AppendMessages(messages):
            return {key: text for each in messages for key, text in _message(each).items()}
        case AppendUserMessage(sequence, turn, message):
            return _message(user_message(runner, sequence=sequence, turn=turn, message=message))
        case TakeSteering(first=first, taken=taken):
            return {
                f"{TAKEN_STEERING}{steering_key(number)}": _text(dump(each, TakenSteering))
                for number, each in enumerate(taken, start=first)
            }
        case RecordApproval(record, number):
            kept = {APPROVALS + approval_key(number): _text(dump(record, ApprovalRecord))}
            return kept | {APPROVAL_COUNT: str(number + 1)}
        case SetSummary(summary):
            key = SUMMARY + message_key(summary.through_sequence)
            return {key: _text(dump(summary, HistorySummary))}
        case ClearTurn() | DropMessages() | DrainChannels() | WithdrawQueued():
            return {}
        case _:
            assert_never(write)


def _deleted(write: Write, snapshot: Records) -> set[str]:
    """The keys that ``write`` deletes: those that its snapshot showed."""
    prefixes: tuple[str, ...]
    match write:
        case ClearTurn():
            prefixes = _OF_A_TURN
        case SetRunState():
            prefixes = (RUN_STATE,)
        case SetSummary():
            prefixes = (SUMMARY,)
        case DropMessages(sequences):
            keys = {MESSAGES + message_key(each) for each in sequences}
            prefixes = tuple(f"{MESSAGE_PARTS}{message_key(each)}." for each in sequences)
            return keys | {key for key, _ in snapshot if key.startswith(prefixes)}
        case _:
            return set()
    return {key for key, _ in snapshot if key.startswith(prefixes)}


def _taken(write: Write, snapshot: Records) -> list[tuple[str, str]]:
    """The messages that ``write`` deletes. In a simulation a message's text is its name."""
    match write:
        case TakeSteering(channel_message_ids=names):
            return [(STEERING_MESSAGES, name) for name in names]
        case WithdrawQueued(name):
            return [(QUEUED_USER_MESSAGES, name)]
        case DrainChannels(interrupt_ids):
            drained = {TOOL_CALL_RESULTS, *(INTERRUPT_RESOLUTIONS + each for each in interrupt_ids)}
            return [pair for pair in snapshot if pair[0] in drained]
        case _:
            return []


def _message(message: AgentMessage) -> dict[str, str]:
    return _laid(MESSAGES + message_key(message.sequence), MESSAGE_PARTS, lay_message(message))


def _laid(key: str, parts: str, laid: Laid) -> dict[str, str]:
    return {
        key: _text(dict(laid.entry.data)),
        **{parts + name: part for name, part in laid.parts.items()},
    }


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))
