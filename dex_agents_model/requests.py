"""What a client may ask of a session, and what it gets back. One class per RPC; its snake-case name is the RPC's."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

from attrs import field, frozen

from .calls import AgentToolCall
from .ids import InterruptId, SessionId
from .records import AgentInterrupt, AgentMessage, AgentState, AgentUsage, AgentUserMessage

MAX_PAGE_MESSAGES: Final = 200
MAX_READ_BYTES: Final = 2 * 1024 * 1024


@frozen
class SendUserMessage:
    """Queue a message. Reply: whether it was taken; False for a blank or too long one."""

    message: AgentUserMessage


@frozen
class ResolveInterrupt:
    """Answer a question. Reply: whether the answer counts; False when none waits or it is too late.

    ``request_id`` names the answer over its retries; empty means unnamed. ``arguments_digest``,
    when given, must be that of the interrupt.
    """

    interrupt_id: InterruptId
    approved: bool
    rejection_message: str | None = None
    arguments_digest: str | None = None
    request_id: str = ""


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


Request: TypeAlias = SendUserMessage | ResolveInterrupt | GetAgentSnapshot | ListAgentMessages


@frozen(kw_only=True)
class AgentMessagesPage:
    """Messages in sequence order, at most 200 and 2 MiB (but always one, when there is one)."""

    messages: tuple[AgentMessage, ...]
    has_more: bool


@frozen(kw_only=True)
class AgentSnapshot:
    """A session at one moment. ``messages`` are the newest ones in sequence order.

    ``has_earlier_messages`` says that there are stored messages before them;
    ``tool_calls`` are the active turn's, in model order; ``observed_at`` is the engine's time.
    ``state`` is None until the session's first Step has committed.
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


Reply: TypeAlias = bool | AgentMessagesPage | AgentSnapshot
