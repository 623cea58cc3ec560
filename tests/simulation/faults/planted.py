"""What a planted fault is, the promises that several of them break, and the ways in which several do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import evolve, frozen

from dex_agents_model.calls import Failed, Rejected
from dex_agents_model.decision import (
    AppendUserMessage,
    Commit,
    EndBranch,
    PutToolCall,
    RpcDecision,
    SetState,
    StepDecision,
    ToolCallFinished,
    Write,
)
from dex_agents_model.records import WaitingForUserMessage

from ..planting import Plant, writing

ANSWERS_ARE_APPLIED: Final = "accepted answers are applied"
MESSAGES_ARE_TAKEN_ONCE: Final = "user messages are taken once in order"
REST_IS_FOR_PEOPLE: Final = "a resting session waits for people"
QUESTIONS_MIRROR_CALLS: Final = "questions mirror the calls that wait"


@frozen
class PlantedFault:
    """``plant`` it, and a search of ``scenario`` finds that ``broken`` does not hold."""

    name: str
    plant: Plant
    scenario: str
    broken: str


def finished(record: Rejected | Failed) -> StepDecision:
    return StepDecision(
        commit=Commit(writes=(PutToolCall(record),), publishes=(ToolCallFinished(record),)),
        next=EndBranch(),
    )


def without_user_messages(decision: StepDecision) -> StepDecision:
    notes = sum(isinstance(w, AppendUserMessage) for w in decision.commit.writes)

    def bend(write: Write) -> Write | None:
        if isinstance(write, SetState) and isinstance(write.state, WaitingForUserMessage):
            count = write.state.message_count - notes
            return SetState(evolve(write.state, message_count=count))
        return None if isinstance(write, AppendUserMessage) else write

    return writing(bend)(decision)


def dropping(*kinds: type[Any]) -> Callable[[RpcDecision[bool]], RpcDecision[bool]]:
    return lambda decision: evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, kinds))
    )
