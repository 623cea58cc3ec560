"""Faults in what the model is given: messages, results, run state, steering."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from dex_agents_model.decision import SetRunState, TakeSteering, Write
from dex_agents_model.effects import CallModel, Entered, ToolCallsRequested, ToolResultsArrived
from dex_agents_model.steps import ResumeTurn, RunModel

from ..planting import Plant, Rule, decisions, row, without, writing
from .planted import PlantedFault

_WHOLE: Final = "the model is given the whole turn"
_STEERING: Final = "steering reaches the model in order"


def _given(**changes: Any) -> Plant:
    """The model is called with these changes."""

    def bent(rule: Rule, *given: object) -> object:
        reaction = rule(*given)
        return evolve(reaction, **changes) if isinstance(reaction, CallModel) else reaction

    return row(RunModel, Entered, bent)


def _in_reverse(rule: Rule, *given: object) -> object:
    reaction = rule(*given)
    if not isinstance(reaction, CallModel):
        return reaction
    return evolve(reaction, steering_messages=reaction.steering_messages[::-1])


def _taken_in_reverse(write: Write) -> Write:
    return evolve(write, taken=write.taken[::-1]) if isinstance(write, TakeSteering) else write


FAULTS: Final = (
    PlantedFault("the model is given no results", _given(tool_calls=()), "two-messages", _WHOLE),
    PlantedFault("the model is given no run state", _given(run_state=None), "two-messages", _WHOLE),
    PlantedFault(
        "the run state is not stored",
        decisions(RunModel, ToolCallsRequested, writing(without(SetRunState))),
        "two-messages",
        _WHOLE,
    ),
    PlantedFault(
        "the model is given no steering", _given(steering_messages=()), "steer-and-queue", _STEERING
    ),
    PlantedFault(
        "the model is given the newest steering first",
        row(RunModel, Entered, _in_reverse),
        "steer-and-queue",
        _STEERING,
    ),
    PlantedFault(
        "the newest steering is taken first",
        decisions(ResumeTurn, ToolResultsArrived, writing(_taken_in_reverse)),
        "steer-and-queue",
        _STEERING,
    ),
    PlantedFault(
        "the model is not given the summary",
        _given(summary=None),
        "compaction",
        "the model is told everything once",
    ),
)
