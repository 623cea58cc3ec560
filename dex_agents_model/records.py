"""What a session remembers. Status is the class, so a field exists only where it has a meaning.

Data only: no rule, no wire form, no default that decides anything may live here.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

from attrs import field, frozen, validators

from .ids import InterruptId, ToolCallId, TurnId
from .text import clean_text, refuse_unusable_id


class MessageRole(StrEnum):
    """Who speaks in a stored message."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class AgentStatus(StrEnum):
    """What a session is doing."""

    WAITING_FOR_USER_MESSAGE = "waiting_for_user_message"
    RUNNING_MODEL = "running_model"
    RUNNING_TOOLS = "running_tools"
    WAITING_FOR_APPROVAL = "waiting_for_approval"


@frozen
class AgentUsage:
    """Tokens and requests, of one model call or summed over a session's committed model calls."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: AgentUsage) -> AgentUsage:
        return AgentUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@frozen
class FrameworkMessage:
    """A message as the framework made it, before the session gives it a place.

    ``framework_item`` is opaque and stays byte-exact; it must be text that UTF-8 can hold.
    ``estimated_tokens`` is about how much of a model's input the message takes; None means a third
    of the item's bytes, as for text. The other fields are for display.
    """

    role: MessageRole
    framework_item: str
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    estimated_tokens: int | None = None


@frozen
class AgentMessage:
    """A stored message. Sequences start at 1 and have no gaps.

    ``message_id`` is that of the user message which it holds, empty for any other. ``output`` is the
    turn's final answer as JSON text, on the last message of a turn that ended with data. ``unbuilt``
    says why the runner could make no item of what a user said: ``framework_item`` is then what lay
    beside the text, or empty, and the runner is asked again when the model is to be told.
    """

    sequence: int = field(validator=validators.ge(1))
    turn_id: TurnId
    role: MessageRole
    framework_item: str
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    message_id: str = ""
    output: str | None = None
    estimated_tokens: int | None = None
    unbuilt: str | None = None


@frozen
class AgentUserMessage:
    """What a user said. ``message_id`` names the sending over its retries; empty means unnamed.

    ``framework_content`` is what they sent beside the text, such as images: opaque, for the
    framework alone to read. The text is cleaned wherever it comes from; an ID that cannot be stored
    or is longer than 1,024 bytes is refused, with a ValueError.
    """

    text: str = field(converter=clean_text)
    message_id: str = field(default="", validator=refuse_unusable_id)
    framework_content: str | None = None


@frozen
class SteeringMessage:
    """What a user said to a turn that may be running.

    ``rejects_pending_approvals``: the questions that wait for a person then are answered by it, with no.
    """

    message: AgentUserMessage
    rejects_pending_approvals: bool = True


@frozen
class TakenSteering:
    """A steering message that a turn took up, for the model call after ``model_calls`` committed ones."""

    model_calls: int
    message: AgentUserMessage


@frozen
class AgentInterrupt:
    """A question that waits for a person.

    ``arguments`` is shortened for display; ``arguments_digest`` names the whole text.
    ``deadline`` is UTC in whole seconds; answers are refused from it on.
    """

    interrupt_id: InterruptId
    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    arguments: str
    arguments_digest: str
    deadline: datetime | None = None


class ApprovalDecision(StrEnum):
    """How a question about a tool call ended."""

    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


@frozen
class AgentInterruptResolution:
    """A person's answer, as it was accepted at ``resolved_at``.

    ``rejection_message`` has a meaning only without ``approved``, ``edited_arguments`` (JSON text
    of an object) only with it. ``superseded``: the person spoke to the turn instead of answering.
    """

    signal: ClassVar = "interrupt_resolution"

    interrupt_id: InterruptId
    approved: bool
    resolved_at: datetime
    rejection_message: str | None = None
    edited_arguments: str | None = None
    resolved_by: str | None = None
    reason: str | None = None
    superseded: bool = False


@frozen
class ApprovalRecord:
    """Who decided what about one tool call, when and why. Kept after its turn.

    ``arguments_digest`` names the arguments that were shown; those that an approver put in their
    place have ``edited_arguments_digest``.
    """

    interrupt_id: InterruptId
    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    arguments_digest: str
    decision: ApprovalDecision
    decided_at: datetime
    resolved_by: str | None = None
    reason: str | None = None
    edited_arguments_digest: str | None = None


@frozen
class HistorySummary:
    """What the model is told in place of the messages up to ``through_sequence``. Never a message itself."""

    through_sequence: int
    text: str
    usage: AgentUsage


@frozen
class HistoryRange:
    """Which messages are stored, from ``first_sequence`` on, and up to where a summary stands for them."""

    first_sequence: int = 1
    summarised_through: int = 0

    def behind_summary(self, message_count: int) -> range:
        """The sequences of the messages that no summary stands for."""
        return range(max(self.first_sequence, self.summarised_through + 1), message_count + 1)


@frozen
class TurnSucceeded:
    """The turn ended with the model's final answer; ``message_count`` is what it appended."""

    outcome: ClassVar = "completed"

    message_count: int


@frozen
class TurnFailed:
    """The turn ended without an answer."""

    outcome: ClassVar = "failed"

    error: str


@frozen
class TurnCancelled:
    """A person stopped the turn."""

    outcome: ClassVar = "cancelled"


TurnEnd: TypeAlias = TurnSucceeded | TurnFailed | TurnCancelled
"""How a turn ended."""


@frozen
class WaitingForUserMessage:
    """No turn runs. ``last_turn`` is how the latest one ended, None before the first."""

    status: ClassVar = AgentStatus.WAITING_FOR_USER_MESSAGE

    turn_count: int = 0
    message_count: int = 0
    last_turn: TurnEnd | None = None
    history: HistoryRange = HistoryRange()

    @property
    def active_turn_id(self) -> None:
        """None: no turn runs."""
        return None

    @property
    def last_turn_error(self) -> str | None:
        """Why the latest turn failed; None when it did not."""
        return self.last_turn.error if isinstance(self.last_turn, TurnFailed) else None


@frozen
class _RunningTurn:
    turn_count: int = field(validator=validators.ge(1))
    message_count: int
    model_calls: int
    """Model calls of this turn whose answer was committed."""
    steering_count: int = 0
    """Steering messages that this turn took up."""
    history: HistoryRange = HistoryRange()
    may_compact: bool = True
    """False once a summary could not be made: the turn does not ask for one again."""
    run_state_tokens: int | None = None
    """About how much of the model's input the runner's state takes; None means a third of its bytes."""
    tool_call_ids: tuple[ToolCallId, ...] = ()
    """Of the tool calls that this turn asked for, in model order: the keys of their records."""

    @property
    def active_turn_id(self) -> TurnId:
        """The turn that runs."""
        return TurnId.of(self.turn_count)

    @property
    def last_turn_error(self) -> None:
        """None: while a turn runs nothing is told of the one before."""
        return None


@frozen
class RunningModel(_RunningTurn):
    """The model is to be called, for the first time or with the results of its tool calls."""

    status: ClassVar = AgentStatus.RUNNING_MODEL


@frozen
class RunningTools(_RunningTurn):
    """The tool calls of the latest model response run or wait for approval."""

    status: ClassVar = AgentStatus.RUNNING_TOOLS

    earlier_tool_calls: int = 0
    """How many of them earlier model responses asked for; those are final."""

    @property
    def latest_tool_call_ids(self) -> tuple[ToolCallId, ...]:
        """Those that the latest model response asked for."""
        return self.tool_call_ids[self.earlier_tool_calls :]


AgentState: TypeAlias = WaitingForUserMessage | RunningModel | RunningTools
"""Where a session stands; its class is its status."""
