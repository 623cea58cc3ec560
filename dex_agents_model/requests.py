"""What a client may ask of a session, and what it gets back. One class per RPC; its snake-case name is the RPC's."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

from attrs import field, frozen

from .calls import AgentToolCall
from .ids import InterruptId, SessionId, ToolCallId, TurnId
from .records import (
    AgentInterrupt,
    AgentMessage,
    AgentState,
    AgentUsage,
    AgentUserMessage,
    ApprovalRecord,
    SteeringMessage,
)
from .text import clean_text, refuse_unstorable, refuse_unusable_id, size_bytes

MAX_PAGE_MESSAGES: Final = 200
"""Of messages, in one answer."""
MAX_PAGE_APPROVALS: Final = 500
"""Of decisions, in one answer."""
MAX_EDITED_ARGUMENT_BYTES: Final = 256 * 1024
"""Of the arguments that an approver puts in the place of the model's."""
MAX_READ_BYTES: Final = 2 * 1024 * 1024
"""Of what one answer reads, but for a single thing that is larger."""
MAX_QUEUED_BYTES: Final = 2 * 1024 * 1024
"""Of what the user queue holds: a Channel can only be loaded whole."""
MAX_STEERING_BYTES: Final = 1024 * 1024
"""Of the steering messages that wait."""
KEPT_REQUEST_IDS: Final = 64
"""Under each of 16 keys; so a repeat is known at least until as many other requests were taken."""


def message_bytes(message: AgentMessage | AgentUserMessage) -> int:
    """What a message takes of an answer, or where it waits: its texts in UTF-8."""
    match message:
        case AgentMessage(framework_item=item, text=text, output=output):
            texts = (item, text or "", output or "")
            return sum(map(size_bytes, texts))
        case AgentUserMessage(text=said, framework_content=content):
            return size_bytes(said) + size_bytes(content or "")


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


@frozen
class SendUserMessage:
    """Queue a message. Reply: whether it was taken.

    False for a blank or too long one, and while so much is queued that this one is too much.
    """

    message: AgentUserMessage

    @property
    def request_id(self) -> str:
        """Names the sending over its retries; empty means unnamed."""
        return self.message.message_id


@frozen
class SteerUserMessage:
    """Speak to the turn that runs, or begin one. Reply: whether it was taken, as SendUserMessage."""

    steering: SteeringMessage

    @property
    def request_id(self) -> str:
        """As that of SendUserMessage."""
        return self.steering.message.message_id


@frozen
class WithdrawUserMessage:
    """Take a queued message back. Reply: False when it is not in the queue (any more).

    ``request_id`` names the withdrawal over its retries, so that a repeat of one that was done is not
    told that a turn took the message; empty means unnamed.
    """

    message_id: str = field(validator=refuse_unusable_id)
    request_id: str = field(default="", validator=refuse_unusable_id)


@frozen
class ListQueuedMessages:
    """Read the user queue. Reply: QueuedMessagesPage."""


@frozen
class ResolveInterrupt:
    """Answer a question. Reply: whether the answer counts; False when none waits or it is too late.

    ``arguments_digest``, when given, must be that of the interrupt. ``edited_arguments`` is JSON
    text of an object that takes the place of the arguments; anything else is refused.
    ``resolved_by`` and ``reason`` are kept with the decision. ``request_id`` names the answer over
    its retries; empty means unnamed. What is said to people is cleaned; the rest is refused, with a
    ValueError, when it cannot be sent as it is.
    """

    interrupt_id: InterruptId
    approved: bool
    rejection_message: str | None = field(default=None, converter=_cleaned)
    arguments_digest: str | None = field(default=None, validator=refuse_unstorable)
    edited_arguments: str | None = field(default=None, validator=refuse_unstorable)
    resolved_by: str | None = field(default=None, converter=_cleaned)
    reason: str | None = field(default=None, converter=_cleaned)
    request_id: str = field(default="", validator=refuse_unusable_id)


@frozen
class CancelTurn:
    """End a turn. Reply: whether it still ran; then the turn's one terminal event tells the outcome."""

    turn: TurnId


@frozen
class ClaimToolCall:
    """Ask to be the one delivery that runs a single-attempt call. Reply: whether ``claimant`` is it."""

    turn: TurnId
    call: ToolCallId
    claimant: str


@frozen
class ListApprovals:
    """Read decisions about tool calls behind the first ``after``. Reply: ApprovalsPage."""

    after: int = 0


@frozen
class GetAgentSnapshot:
    """Read all that a user interface shows. Reply: AgentSnapshot."""


def _clamped(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE_MESSAGES))


@frozen
class ListAgentMessages:
    """Read stored messages behind ``after_sequence``, oldest first. Reply: AgentMessagesPage."""

    after_sequence: int = 0
    limit: int = field(default=MAX_PAGE_MESSAGES, converter=_clamped)


IdentifiedRequest: TypeAlias = (
    SendUserMessage | SteerUserMessage | WithdrawUserMessage | ResolveInterrupt
)
"""Those that count once however often they are repeated."""
Request: TypeAlias = (
    SendUserMessage
    | SteerUserMessage
    | WithdrawUserMessage
    | ListQueuedMessages
    | ResolveInterrupt
    | CancelTurn
    | ClaimToolCall
    | GetAgentSnapshot
    | ListAgentMessages
    | ListApprovals
)
"""Everything that a client may ask."""


@frozen(kw_only=True)
class AgentMessagesPage:
    """Messages in sequence order, at most 200 and 2 MiB (but always one, when there is one)."""

    messages: tuple[AgentMessage, ...]
    has_more: bool


@frozen(kw_only=True)
class QueuedMessagesPage:
    """The oldest messages of the user queue, at most 2 MiB (but always one, when there is one)."""

    messages: tuple[AgentUserMessage, ...]
    has_more: bool


@frozen(kw_only=True)
class ApprovalsPage:
    """Decisions about tool calls, oldest first, at most 500 and 2 MiB (but always one, when there is one)."""

    approvals: tuple[ApprovalRecord, ...]
    has_more: bool


@frozen(kw_only=True)
class AgentSnapshot:
    """A session at one moment. ``messages`` are the newest ones in sequence order.

    ``has_earlier_messages`` says that there are stored messages before them;
    ``tool_calls`` are the active turn's, in model order; ``observed_at`` is the engine's time.
    ``state`` is None until the session's first Step has committed. ``event_token`` is a position in
    the session's events before this moment: who reads on from it misses nothing. ``approval_count``
    is how many decisions about tool calls the session has kept.
    """

    session_id: SessionId
    observed_at: datetime
    state: AgentState | None
    messages: tuple[AgentMessage, ...]
    has_earlier_messages: bool
    pending_interrupts: tuple[AgentInterrupt, ...]
    tool_calls: tuple[AgentToolCall, ...]
    usage: AgentUsage
    queued_message_count: int
    event_token: str = ""
    approval_count: int = 0


Reply: TypeAlias = bool | AgentMessagesPage | QueuedMessagesPage | ApprovalsPage | AgentSnapshot
"""What a client gets back; False is a refusal that changed nothing."""
