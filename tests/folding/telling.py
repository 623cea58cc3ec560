"""Events as the attempts of a Step write them. Builders only; no claim may live here."""

from __future__ import annotations

from typing import Final

from dex_agents_model.calls import ToolCallStatus, ToolEffect
from dex_agents_model.events import (
    AgentEvent,
    EventPayload,
    InterruptRaised,
    InterruptResolved,
    StepMethod,
    ToolCallDeferred,
    ToolCallFinished,
    ToolCallStarted,
)
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId

EARLIER_TURN: Final = TurnId("turn-1")
TURN: Final = TurnId("turn-2")
NEXT_TURN: Final = TurnId("turn-3")
A: Final = ToolCallId("a")
B: Final = ToolCallId("b")
ASKED_A: Final = InterruptId.of(TURN, A)
ASKED_B: Final = InterruptId.of(TURN, B)


def attempt(
    step: str,
    *payloads: EventPayload,
    number: int = 1,
    method: StepMethod = StepMethod.EXECUTE,
    turn: TurnId = TURN,
) -> tuple[AgentEvent, ...]:
    """All events of one attempt of ``step``."""
    return tuple(
        AgentEvent(turn, step, method, number, index, payload)
        for index, payload in enumerate(payloads)
    )


def waiting(step: str, *payloads: EventPayload, turn: TurnId = TURN) -> tuple[AgentEvent, ...]:
    """What ``step`` tells as it begins to wait."""
    return attempt(step, *payloads, method=StepMethod.WAIT_FOR, turn=turn)


def deferred(call: ToolCallId) -> ToolCallDeferred:
    return ToolCallDeferred(call, f"tool_{call}", ToolEffect.READ, False)


def started(call: ToolCallId) -> ToolCallStarted:
    return ToolCallStarted(call, f"tool_{call}")


def finished(
    call: ToolCallId, status: ToolCallStatus = ToolCallStatus.SUCCEEDED
) -> ToolCallFinished:
    return ToolCallFinished(call, f"tool_{call}", status)


def raised(call: ToolCallId) -> InterruptRaised:
    return InterruptRaised(InterruptId.of(TURN, call), call, f"tool_{call}", None)


def resolved(call: ToolCallId) -> InterruptResolved:
    return InterruptResolved(InterruptId.of(TURN, call), True, None)
