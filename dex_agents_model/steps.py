"""One class per Step. The class name is the Step's type on the wire; its fields are the Step's input.

An input carries IDs, never payloads (but the first message of a session, which has no other way
in). A Step of a turn names its turn, so that it can see that the turn is over.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen, validators

from .ids import ToolCallId, TurnId
from .records import AgentUserMessage


@frozen
class StartAgentSession:
    """The start Step. A blank or absent first message starts no turn."""

    initial_message: AgentUserMessage | None = None


@frozen
class AwaitUserMessage:
    """Between turns: waits for the next user message and starts a turn with it."""


@frozen
class RunModel:
    """One model call of a turn, after earlier turns were summarised if they have to be."""

    turn: TurnId


@frozen
class CompactHistory:
    """Summarises what was stored up to ``through_sequence``, whole turns before this one."""

    turn: TurnId
    through_sequence: int


@frozen
class RecordCompactionFailure:
    """The failure route of CompactHistory: the turn goes on without a summary."""

    turn: TurnId


@frozen
class AwaitToolApproval:
    """Waits for a person's answer about one tool call, or for its deadline."""

    turn: TurnId
    call: ToolCallId


@frozen
class CallTool:
    """Runs one read or idempotent write; a lost attempt is tried again."""

    turn: TurnId
    call: ToolCallId


@frozen
class CallSingleAttemptTool:
    """Runs one call that must not start twice."""

    turn: TurnId
    call: ToolCallId


@frozen
class RecordToolFailure:
    """The failure route of CallTool; same input."""

    turn: TurnId
    call: ToolCallId


@frozen
class RecordToolOutcomeUnknown:
    """The failure route of CallSingleAttemptTool; same input."""

    turn: TurnId
    call: ToolCallId


@frozen
class ResumeTurn:
    """Waits until ``expected_result_count`` more tool calls are final, then calls the model again."""

    turn: TurnId
    expected_result_count: int = field(validator=validators.ge(1))


@frozen
class RecordTurnFailure:
    """The failure route of RunModel; same input, and ``error`` when a rule ends the turn itself."""

    turn: TurnId
    error: str | None = None


@frozen
class RecordTurnCancelled:
    """Ends a turn that a person cancelled; the cancelling RPC starts it."""

    turn: TurnId


CallStep: TypeAlias = (
    AwaitToolApproval
    | CallTool
    | CallSingleAttemptTool
    | RecordToolFailure
    | RecordToolOutcomeUnknown
)
"""The Steps of one tool call."""
TurnStep: TypeAlias = (
    RunModel
    | CompactHistory
    | RecordCompactionFailure
    | ResumeTurn
    | RecordTurnFailure
    | RecordTurnCancelled
    | CallStep
)
"""The Steps that name the turn to which they belong."""
Step: TypeAlias = StartAgentSession | AwaitUserMessage | TurnStep
"""Every Step of a session."""
