"""Faults in how turns end, what the next turn is told of it, and what watchers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import evolve

from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    SetState,
    StepDecision,
    WaitDecision,
    Write,
)
from dex_agents_model.effects import (
    Entered,
    TurnCompleted,
    UnfinishedTurnBuilt,
)
from dex_agents_model.events import TurnCompletedEvent, TurnEvent, TurnFailedEvent
from dex_agents_model.ids import TurnId
from dex_agents_model.records import AgentUserMessage, MessageRole, WaitingForUserMessage
from dex_agents_model.steps import (
    AwaitUserMessage,
    RecordTurnCancelled,
    RecordTurnFailure,
    RunModel,
)

from ..planting import decisions, going, waits, writing
from .planted import PlantedFault, without_user_messages


def _told_at_once(decision: StepDecision) -> StepDecision:
    told = TurnEvent(TurnId.of(1), TurnCompletedEvent(1))
    return evolve(decision, commit=evolve(decision.commit, events=(*decision.commit.events, told)))


def _noted_twice(decision: StepDecision) -> StepDecision:
    """Each note is left twice, and so is one of a turn that needs none."""
    (state,) = (w.state for w in decision.commit.writes if isinstance(w, SetState))
    assert isinstance(state, WaitingForUserMessage)
    notes = [w for w in decision.commit.writes if isinstance(w, AppendUserMessage)]
    again = AppendUserMessage(
        state.message_count + 1,
        TurnId.of(state.turn_count),
        notes[0].message if notes else AgentUserMessage("a note"),
    )
    counted = SetState(evolve(state, message_count=state.message_count + 1))
    writes = (counted, *(w for w in decision.commit.writes if not isinstance(w, SetState)), again)
    return evolve(decision, commit=evolve(decision.commit, writes=writes))


def _told(**changes: Any) -> Callable[[WaitDecision], WaitDecision]:
    """The end of a turn is told with these changes."""

    def bend(decision: WaitDecision) -> WaitDecision:
        events = tuple(evolve(event, **changes) for event in decision.commit.events)
        return evolve(decision, commit=evolve(decision.commit, events=events))

    return bend


_NOTED: Final = "a turn without answer tells what ran"
_TOLD: Final = "the end of a turn is told when durable"


def _with_the_first_result_alone(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    results = [m for m in write.messages if m.role is MessageRole.TOOL]
    return AppendMessages(tuple(m for m in write.messages if m not in results[1:]))


FAULTS: Final = (
    PlantedFault(
        "a cancelled turn keeps a call without its result",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, writing(_with_the_first_result_alone)),
        "cancel-keeping-items",
        _NOTED,
    ),
    PlantedFault(
        "a failed turn leaves two notes",
        decisions(RecordTurnFailure, UnfinishedTurnBuilt, _noted_twice),
        "model-fails",
        _NOTED,
    ),
    PlantedFault(
        "a cancelled turn leaves a note though nothing ran",
        decisions(RecordTurnCancelled, Entered, _noted_twice),
        "cancel",
        _NOTED,
    ),
    PlantedFault(
        "the end of another turn is told",
        waits(AwaitUserMessage, _told(turn=TurnId.of(9))),
        "two-messages",
        _TOLD,
    ),
    PlantedFault(
        "a turn's end is told as another one",
        waits(AwaitUserMessage, _told(payload=TurnFailedEvent("no"))),
        "two-messages",
        _TOLD,
    ),
    PlantedFault(
        "a turn's end is told before it is durable",
        decisions(RunModel, TurnCompleted, _told_at_once),
        "two-messages",
        "the end of a turn is told when durable",
    ),
    PlantedFault(
        "a failed turn leaves no note",
        decisions(RecordTurnFailure, UnfinishedTurnBuilt, without_user_messages),
        "model-fails",
        "a turn without answer tells what ran",
    ),
    PlantedFault(
        "the model's failure ends the session",
        decisions(RecordTurnFailure, UnfinishedTurnBuilt, going(lambda steps: ())),
        "model-fails",
        "one control branch is live",
    ),
)
