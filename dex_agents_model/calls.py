"""One tool call from the model's request to its one result. Status is the class, as in `records`.

Data only: what a status allows is the rules' business.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, TypeAlias

from attrs import frozen

from .ids import InterruptId, ToolCallId, TurnId


class ToolEffect(StrEnum):
    """What running a tool does to the world; it decides retries and approval ([core: effects])."""

    __hash__ = str.__hash__  # an Enum's own is many times slower, and each call looks its rule up

    READ = "read"
    IDEMPOTENT_WRITE = "idempotent_write"
    NON_IDEMPOTENT_WRITE = "non_idempotent_write"
    UNCLASSIFIED = "unclassified"


class ToolCallStatus(StrEnum):
    """Where one tool call stands."""

    AWAITING_APPROVAL = "awaiting_approval"
    RUNNABLE = "runnable"
    SUCCEEDED = "succeeded"
    REJECTED = "rejected"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


@frozen
class RequestedToolCall:
    """What the model asked for. Only an approver's edit changes its arguments.

    ``arguments`` is JSON text as the model wrote it, or an approver when ``arguments_edited``.
    ``deferral_order`` counts the calls of the turn from 0, in model order; ``model_call`` says which
    model call of the turn, from 1, asked for this one. ``framework_memo`` is what the runner wants
    to know again when the call runs: opaque, for it alone to read.

    ``fenced`` says whether each delivery must claim the call before it runs it. It is said once, when
    the call is asked for, for all Workers: those of two deployments may have other options. None:
    an earlier release asked for it and did not say. ``timeout_seconds`` bounds each attempt; None
    leaves it to the Step.
    """

    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    arguments: str
    effect: ToolEffect
    requires_approval: bool
    deferral_order: int
    model_call: int = 1
    arguments_edited: bool = False
    framework_memo: str | None = None
    fenced: bool | None = None
    timeout_seconds: int | None = None


@frozen
class _OfCall:
    call: RequestedToolCall

    @property
    def turn_id(self) -> TurnId:
        """The turn whose model asked for it."""
        return self.call.turn_id

    @property
    def tool_call_id(self) -> ToolCallId:
        """What the model calls it; unique within its turn."""
        return self.call.tool_call_id

    @property
    def tool_name(self) -> str:
        """The tool's name as the model knows it."""
        return self.call.tool_name

    @property
    def arguments(self) -> str:
        """JSON text of an object: what runs, also after an approver changed it."""
        return self.call.arguments

    @property
    def effect(self) -> ToolEffect:
        """What the tool does to the world, as it was when the call was asked for."""
        return self.call.effect

    @property
    def deferral_order(self) -> int:
        """Its place among the calls of one model response, from 0."""
        return self.call.deferral_order


@frozen
class AwaitingApproval(_OfCall):
    """It runs only after a person has agreed."""

    status: ClassVar = ToolCallStatus.AWAITING_APPROVAL

    @property
    def interrupt_id(self) -> InterruptId:
        """The question that a person is asked about it."""
        return InterruptId.of(self.turn_id, self.tool_call_id)


@frozen
class Runnable(_OfCall):
    """It may run: no approval was required, or it was given."""

    status: ClassVar = ToolCallStatus.RUNNABLE


@frozen
class Succeeded(_OfCall):
    """The tool returned ``output``, cut to the session's limit when ``output_truncated``.

    ``framework_content`` is what it returned beside text, such as images: opaque, for the framework
    alone to read. ``content_tokens`` is about how much of a model's input that takes; None means a
    third of its bytes.
    """

    status: ClassVar = ToolCallStatus.SUCCEEDED

    output: str
    output_truncated: bool = False
    framework_content: str | None = None
    content_tokens: int | None = None


@frozen
class Rejected(_OfCall):
    """Nobody agreed, so nothing ran; ``expired`` tells a passed deadline from a person's refusal."""

    status: ClassVar = ToolCallStatus.REJECTED

    rejection_message: str
    expired: bool = False


@frozen
class Failed(_OfCall):
    """The tool said that it failed, or a read was given up."""

    status: ClassVar = ToolCallStatus.FAILED

    error: str


@frozen
class OutcomeUnknown(_OfCall):
    """The call was cut off; its work may have happened."""

    status: ClassVar = ToolCallStatus.OUTCOME_UNKNOWN

    error: str


@frozen
class Cancelled(_OfCall):
    """The turn was cancelled before the call could change anything."""

    status: ClassVar = ToolCallStatus.CANCELLED


OpenCall: TypeAlias = AwaitingApproval | Runnable
"""A tool call that has no result yet."""
FinalCall: TypeAlias = Succeeded | Rejected | Failed | OutcomeUnknown | Cancelled
"""A tool call with its one result, which never changes again."""
AgentToolCall: TypeAlias = OpenCall | FinalCall
"""The record of one tool call of the running turn; its class is its status."""


@frozen
class ToolCallCompleted:
    """Published exactly once for each tool call, when its record becomes final."""

    signal: ClassVar = "tool_call_completed"

    turn_id: TurnId
    tool_call_id: ToolCallId
