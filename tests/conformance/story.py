"""What a story is, as data: a session, its scripted model and tools, and what people do. Nothing here plays one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

from attrs import frozen

from dex_agents_model import AgentSessionOptions, CompactionPolicy, ToolEffect, ToolPolicy
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.records import AgentUserMessage, SteeringMessage
from dex_agents_model.requests import (
    CancelTurn,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
    WithdrawUserMessage,
)
from dex_agents_model.simulation import ScriptedRunner


@frozen
class LetsGo:
    """What was held goes on, now and at any later attempt."""

    name: str


@frozen
class TimePasses:
    """Nobody does anything until the next deadline. The moment before it is not looked at: it is short."""


@frozen
class WorkerDies:
    """The Worker is killed with all that it runs, and another one takes over. Once in a story."""


Asks: TypeAlias = (
    SendUserMessage | SteerUserMessage | WithdrawUserMessage | ResolveInterrupt | CancelTurn
)
Act: TypeAlias = Asks | LetsGo | TimePasses | WorkerDies


@frozen(kw_only=True, eq=False)
class Story:
    """One session. Each act is done once all that can happen without it has happened.

    ``held`` names model calls by their turn (``turn-1``) and tool calls by turn and ID
    (``turn-1/c``): they have begun and do not end before somebody lets them go.
    """

    name: str
    runner: ScriptedRunner = ScriptedRunner()
    options: AgentSessionOptions
    first_message: str | None = None
    held: frozenset[str] = frozenset()
    acts: tuple[Act, ...] = ()

    @property
    def flow_type(self) -> str:
        return "Conformance-" + "-".join(re.findall(r"\w+", self.name))

    @property
    def needs_death(self) -> bool:
        return any(isinstance(act, WorkerDies) for act in self.acts)

    @property
    def cuts_off(self) -> bool:
        """Whether an attempt may be cut off: what it has told until then is left to chance."""
        return any(isinstance(act, WorkerDies | CancelTurn) for act in self.acts)


# --- the tools of every story --------------------------------------------------------------

POLICIES: Final = {
    "look": ToolPolicy(ToolEffect.READ),
    "put": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
    "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
    "poke": ToolPolicy(ToolEffect.UNCLASSIFIED, requires_approval=False),
    "reserve": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE, requires_approval=True),
    "refund": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
}


def options(
    *,
    deadline: timedelta | None = None,
    model_calls: int = 50,
    argument_bytes: int = 64 * 1024,
    compaction: CompactionPolicy | None = None,
    is_fenced: bool = True,
) -> AgentSessionOptions:
    return AgentSessionOptions(
        tool_policies=POLICIES,
        interrupt_deadline=deadline,
        max_model_calls_per_turn=model_calls,
        max_response_argument_bytes=argument_bytes,
        compaction=compaction,
        fence_single_attempt_tools=is_fenced,
    )


# --- what people do ------------------------------------------------------------------------


def says(text: str, message_id: str) -> SendUserMessage:
    return SendUserMessage(AgentUserMessage(text, message_id))


def steers(text: str, message_id: str, *, rejects: bool = True) -> SteerUserMessage:
    return SteerUserMessage(SteeringMessage(AgentUserMessage(text, message_id), rejects))


def withdraws(message_id: str) -> WithdrawUserMessage:
    return WithdrawUserMessage(message_id)


def cancels(turn: str = "turn-1") -> CancelTurn:
    return CancelTurn(TurnId(turn))


def approves(
    call: str, *, turn: str = "turn-1", edited: str | None = None, digest: str | None = None
) -> ResolveInterrupt:
    return ResolveInterrupt(
        _question(turn, call),
        True,
        arguments_digest=digest,
        edited_arguments=edited,
        resolved_by="ada",
    )


def rejects(call: str, *, turn: str = "turn-1", message: str | None = None) -> ResolveInterrupt:
    return ResolveInterrupt(
        _question(turn, call), False, rejection_message=message, reason="too much"
    )


def _question(turn: str, call: str) -> InterruptId:
    return InterruptId.of(TurnId(turn), ToolCallId(call))
