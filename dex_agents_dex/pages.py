"""Which stored entries a client reads for what it was asked; which of them are shown, the model says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dex_agents_model.ids import ToolCallId
from dex_agents_model.layout import approval_key, message_key, read_message, read_tool_call
from dex_agents_model.records import (
    AgentMessage,
    AgentState,
    ApprovalRecord,
    RunningModel,
    RunningTools,
)
from dex_agents_model.requests import (
    MAX_PAGE_APPROVALS,
    MAX_PAGE_MESSAGES,
    MAX_READ_BYTES,
    ListAgentMessages,
    ListApprovals,
    message_bytes,
)

from .entries import Entries
from .schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVALS,
)

_AT_ONCE: Final = 48
_MOST_CALLS: Final = 96


def calls_to_show(state: AgentState | None) -> tuple[ToolCallId, ...]:
    """The newest tool calls of the running turn, as many as one answer holds."""
    if not isinstance(state, RunningModel | RunningTools):
        return ()
    return state.tool_call_ids[-_MOST_CALLS:]


async def newest_messages(entries: Entries, state: AgentState | None) -> tuple[AgentMessage, ...]:
    """At least as many of the newest messages as a snapshot shows and one more, if there are so many."""
    newest_first = await _read(entries, list(reversed(_stored(state))), MAX_PAGE_MESSAGES)
    return tuple(reversed(newest_first))


async def messages_behind(
    entries: Entries, state: AgentState | None, request: ListAgentMessages
) -> tuple[AgentMessage, ...]:
    """At least as many messages as the page that is asked for holds and one more, if there are so many."""
    behind = [each for each in _stored(state) if each > request.after_sequence]
    return tuple(await _read(entries, behind, request.limit))


async def arguments_of(entries: Entries, call: ToolCallId) -> str | None:
    """The whole arguments of a tool call of the running turn; None when it is not stored (any more)."""
    heads = await entries.stored(AGENT_TOOL_CALLS, (call,))
    for head in heads.values():
        parts = await entries.stored(AGENT_TOOL_CALL_PARTS, head.part_keys())
        if parts.keys() >= set(head.part_keys()):
            return read_tool_call(head, parts).arguments
    return None


async def decisions_behind(
    entries: Entries, approval_count: int, request: ListApprovals
) -> tuple[ApprovalRecord, ...]:
    """At least as many decisions as the page that is asked for holds and one more, if there are so many."""
    last = min(approval_count, request.after + MAX_PAGE_APPROVALS + 1)
    found = await entries.stored(APPROVALS, map(approval_key, range(request.after, last)))
    return tuple(found.values())


def _stored(state: AgentState | None) -> Sequence[int]:
    return () if state is None else range(state.history.first_sequence, state.message_count + 1)


async def _read(entries: Entries, sequences: Sequence[int], limit: int) -> list[AgentMessage]:
    """The first of ``sequences``, until there are more of them than an answer may hold."""
    found: list[AgentMessage] = []
    for start in range(0, len(sequences), _AT_ONCE):
        found += await _read_kept(entries, sequences[start : start + _AT_ONCE])
        if len(found) > limit or sum(map(message_bytes, found)) > MAX_READ_BYTES:
            break
    return found


async def _read_kept(entries: Entries, sequences: Sequence[int]) -> list[AgentMessage]:
    """Those of ``sequences`` that are still stored: retention may drop the oldest at any time."""
    heads = await entries.stored(AGENT_MESSAGES, map(message_key, sequences))
    keys = [key for head in heads.values() for key in head.part_keys()]
    parts = await entries.stored(AGENT_MESSAGE_PARTS, keys)
    whole = (head for head in heads.values() if parts.keys() >= set(head.part_keys()))
    return [read_message(head, parts) for head in whole]
