"""What a session tells a watching user interface. Best effort: no rule ever reads an event back."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

from attrs import frozen

from .calls import ToolCallStatus, ToolEffect
from .ids import InterruptId, ToolCallId, TurnId
from .records import AgentUsage, TurnCancelled, TurnEnd, TurnFailed, TurnSucceeded


class AgentEventType(StrEnum):
    """The name of each event on the wire."""

    TURN_STARTED = "turn_started"
    TURN_COMPLETED = "turn_completed"
    TURN_FAILED = "turn_failed"
    TURN_CANCELLED = "turn_cancelled"
    STEERING_TAKEN = "steering_taken"
    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DEFERRED = "tool_call_deferred"
    TOOL_CALL_STARTED = "tool_call_started"
    TOOL_CALL_FINISHED = "tool_call_finished"
    INTERRUPT_RAISED = "interrupt_raised"
    INTERRUPT_RESOLVED = "interrupt_resolved"
    USAGE_RECORDED = "usage_recorded"
    MODEL_CALL_FAILED = "model_call_failed"
    HISTORY_COMPACTED = "history_compacted"
    HISTORY_COMPACTION_FAILED = "history_compaction_failed"
    CUSTOM = "custom"


@frozen
class TurnStarted:
    """``sequence`` and ``message_id`` are those of the user message that opened the turn."""

    type: ClassVar = AgentEventType.TURN_STARTED

    sequence: int
    message_id: str = ""


@frozen
class TurnCompletedEvent:
    """Replace the turn's live text with its stored messages."""

    type: ClassVar = AgentEventType.TURN_COMPLETED

    message_count: int


@frozen
class TurnFailedEvent:
    """Replace the turn's live text with its stored messages."""

    type: ClassVar = AgentEventType.TURN_FAILED

    error: str


@frozen
class TurnCancelledEvent:
    """Replace the turn's live text with its stored messages."""

    type: ClassVar = AgentEventType.TURN_CANCELLED


TerminalEvent: TypeAlias = TurnCompletedEvent | TurnFailedEvent | TurnCancelledEvent
"""The one event that tells how a turn ended."""


def told_end(end: TurnEnd) -> TerminalEvent:
    """What watchers are told of how a turn ended."""
    match end:
        case TurnSucceeded(message_count):
            return TurnCompletedEvent(message_count)
        case TurnFailed(error):
            return TurnFailedEvent(error)
        case TurnCancelled():
            return TurnCancelledEvent()


@frozen
class SteeringTaken:
    """The turn goes on with this many messages that the user sent while it ran."""

    type: ClassVar = AgentEventType.STEERING_TAKEN

    count: int


@frozen
class TextDelta:
    """More of the model's answer."""

    type: ClassVar = AgentEventType.TEXT_DELTA

    text: str


@frozen
class ReasoningDelta:
    """More of the model's reasoning."""

    type: ClassVar = AgentEventType.REASONING_DELTA

    text: str


@frozen
class ToolCallDeferred:
    """The model asked for this call; it has a Step of its own now."""

    type: ClassVar = AgentEventType.TOOL_CALL_DEFERRED

    tool_call_id: ToolCallId
    tool_name: str
    effect: ToolEffect
    requires_approval: bool


@frozen
class ToolCallStarted:
    """An attempt of the call is about to run its tool."""

    type: ClassVar = AgentEventType.TOOL_CALL_STARTED

    tool_call_id: ToolCallId
    tool_name: str


@frozen
class ToolCallFinished:
    """The call's record is final. A later one of the same call replaces an earlier one."""

    type: ClassVar = AgentEventType.TOOL_CALL_FINISHED

    tool_call_id: ToolCallId
    tool_name: str
    status: ToolCallStatus


@frozen
class InterruptRaised:
    """A call waits for a person."""

    type: ClassVar = AgentEventType.INTERRUPT_RAISED

    interrupt_id: InterruptId
    tool_call_id: ToolCallId
    tool_name: str
    deadline: datetime | None


@frozen
class InterruptResolved:
    """A person answered, or the deadline passed (then not approved)."""

    type: ClassVar = AgentEventType.INTERRUPT_RESOLVED

    interrupt_id: InterruptId
    approved: bool
    rejection_message: str | None


@frozen
class UsageRecorded:
    """What one committed model call used, and the session's sum with it."""

    type: ClassVar = AgentEventType.USAGE_RECORDED

    recorded: AgentUsage
    session: AgentUsage


@frozen
class ModelCallFailedEvent:
    """This attempt of a model call failed; what the provider counted of it is in no session's usage."""

    type: ClassVar = AgentEventType.MODEL_CALL_FAILED

    error: str
    used: AgentUsage


@frozen
class HistoryCompacted:
    """A summary stands for the messages up to this one, which stay readable."""

    type: ClassVar = AgentEventType.HISTORY_COMPACTED

    through_sequence: int


@frozen
class HistoryCompactionFailed:
    """No summary could be made; the turn goes on with its whole history."""

    type: ClassVar = AgentEventType.HISTORY_COMPACTION_FAILED

    error: str


@frozen
class CustomEvent:
    """A runner's own event: a name and JSON text."""

    type: ClassVar = AgentEventType.CUSTOM

    name: str
    data: str


EventPayload: TypeAlias = (
    TurnStarted
    | TurnCompletedEvent
    | TurnFailedEvent
    | TurnCancelledEvent
    | SteeringTaken
    | TextDelta
    | ReasoningDelta
    | ToolCallDeferred
    | ToolCallStarted
    | ToolCallFinished
    | InterruptRaised
    | InterruptResolved
    | UsageRecorded
    | ModelCallFailedEvent
    | HistoryCompacted
    | HistoryCompactionFailed
    | CustomEvent
)
"""What an event tells; its class is the event's type."""


class StepMethod(StrEnum):
    """Which of a Step's two methods tells the event; each has attempts of its own."""

    WAIT_FOR = "wait_for"
    EXECUTE = "execute"


@frozen
class TurnEvent:
    """A payload and the turn that it is about: what a rule says; the port adds where it was said."""

    turn: TurnId
    payload: EventPayload


@frozen
class AgentEvent:
    """A payload and where it comes from.

    ``step_execution_id`` is shared by all attempts of one Step execution; ``index`` counts the
    events of one attempt of one method from 0. Of several attempts a reader keeps the highest.
    """

    turn_id: TurnId
    step_execution_id: str
    method: StepMethod
    attempt: int
    index: int
    payload: EventPayload

    @property
    def type(self) -> AgentEventType:
        """What kind of event it is."""
        return self.payload.type
