"""The session that the examples speak of: its second turn runs. Builders only; no claim may live here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from attrs import fields

from dex_agents_model.calls import AgentToolCall, Rejected, RequestedToolCall, Succeeded, ToolEffect
from dex_agents_model.decision import Commit, GoTo, StepDecision
from dex_agents_model.events import EventPayload, TurnEvent
from dex_agents_model.ids import SessionId, ToolCallId, TurnId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    MessageRole,
    RunningModel,
    RunningTools,
    TakenSteering,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.steps import RecordTurnFailure
from dex_agents_model.views import SessionView

V = TypeVar("V", bound=SessionView)

NOW: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SESSION: Final = SessionId("session-1")
TURN: Final = TurnId("turn-2")
DECIDED_BEFORE: Final = 5
"""Decisions about tool calls that the session has kept."""
NEXT_TURN: Final = TurnId("turn-3")

IDLE: Final = WaitingForUserMessage(turn_count=2, message_count=3, last_turn=TurnSucceeded(1))
CALLING: Final = RunningModel(turn_count=2, message_count=3, model_calls=0)
USING_TOOLS: Final = RunningTools(turn_count=2, message_count=3, model_calls=1)

MESSAGES: Final = tuple(
    AgentMessage(sequence, TurnId(turn), role, f"<{sequence}>", f"text {sequence}")
    for sequence, turn, role in (
        (1, "turn-1", MessageRole.USER),
        (2, "turn-1", MessageRole.ASSISTANT),
        (3, "turn-2", MessageRole.USER),
    )
)

USED: Final = AgentUsage(requests=1, input_tokens=12, output_tokens=4)
SUM: Final = AgentUsage(requests=4, input_tokens=42, output_tokens=7)
"""The session's usage with ``USED``."""
SAID: Final = tuple(
    TakenSteering(model_calls, AgentUserMessage(text, f"id of {text}"))
    for model_calls, text in ((1, "sooner"), (2, "now"), (2, "and this"))
)

_FIELDS: Final[dict[str, object]] = {
    "session_id": SESSION,
    "options": AgentSessionOptions(),
    "state": CALLING,
    "usage": AgentUsage(requests=3, input_tokens=30, output_tokens=3),
    "messages": MESSAGES,
    "run_state": None,
    "tool_calls": (),
    "record": None,
    "interrupts": (),
    "taken_request_ids": (),
    "queued_message_count": 0,
    "approval_count": DECIDED_BEFORE,
    "first": 0,
    "summary": None,
    "overhead_tokens": 0,
    "cancelled_turn": None,
    "claimant": None,
    "claimed": frozenset(),
    "steering": (),
    "pending_steering": (),
    "answers": (),
    "queued": (),
    "approvals": (),
}


def view(kind: type[V], **changes: object) -> V:
    """A view of the session; ``changes`` are fields of it that differ."""
    values: dict[str, Any] = {f.name: _FIELDS[f.name] for f in fields(kind)}
    return kind(**{**values, **changes})


def call(
    name: str = "a",
    effect: ToolEffect = ToolEffect.READ,
    *,
    order: int = 0,
    arguments: str = "{}",
    requires_approval: bool = False,
    model_call: int = 1,
) -> RequestedToolCall:
    """The call ``name`` of the running turn, fenced as it is by default."""
    return RequestedToolCall(
        turn_id=TURN,
        tool_call_id=ToolCallId(name),
        tool_name=f"tool_{name}",
        arguments=arguments,
        effect=effect,
        requires_approval=requires_approval,
        deferral_order=order,
        model_call=model_call,
        fenced=effect in (ToolEffect.NON_IDEMPOTENT_WRITE, ToolEffect.UNCLASSIFIED),
    )


def call_view(kind: type[V], record: AgentToolCall | None, **changes: object) -> V:
    """A view of one call, while the turn's tools run."""
    return view(kind, **{"state": USING_TOOLS, "record": record, **changes})


def ended_calls() -> tuple[Succeeded, Rejected]:
    """The first two calls of the turn, both final."""
    return Succeeded(call("a"), "found"), Rejected(call("b", order=1), "no")


def over_a_limit(error: str, commit: Commit = Commit()) -> StepDecision:  # noqa: B008 - it is frozen
    """A rule ends the turn, and a Step of its own records that."""
    return StepDecision(commit=commit, next=GoTo((RecordTurnFailure(TURN, error),)))


def told(*payloads: EventPayload) -> tuple[TurnEvent, ...]:
    """Events about the running turn."""
    return tuple(TurnEvent(TURN, payload) for payload in payloads)
