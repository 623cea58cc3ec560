"""Faults in results and in how a turn resumes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from attrs import evolve

from dex_agents_model.calls import Failed, RequestedToolCall, ToolEffect
from dex_agents_model.decision import PutToolCall, StepDecision, WaitDecision
from dex_agents_model.effects import (
    InterruptAnswered,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
)
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.steps import AwaitToolApproval, CallTool, ResumeTurn, RunModel, Step
from dex_agents_model.waits import ForToolResults

from ..planting import Rule, both, decisions, publishing, row, waits, without, writing
from .planted import PlantedFault


def _goes_on_whatever_is_open(
    rule: Rule, step: Step, view: Any, on: object, now: datetime
) -> object:
    return rule(step, evolve(view, tool_calls=()), on, now)


def _one_result_less(decision: WaitDecision) -> WaitDecision:
    if isinstance(decision.wait, ForToolResults) and decision.wait.count > 1:
        return evolve(decision, wait=ForToolResults(decision.wait.count - 1))
    return decision


_RESULT: Final = "each call has one result"


def _ended_again(rule: Rule, step: Step, view: Any, on: object, now: datetime) -> object:
    """The first call of the turn ends once more, though it has its result."""
    decision = rule(step, view, on, now)
    again = PutToolCall(Failed(view.tool_calls[0].call, "again"))
    return evolve(decision, commit=evolve(decision.commit, writes=(*decision.commit.writes, again)))


def _of_no_call(decision: StepDecision) -> StepDecision:
    """A call ends that nobody asked for."""
    call = RequestedToolCall(
        TurnId("turn-1"), ToolCallId("z"), "z", "{}", ToolEffect.READ, False, 0
    )
    writes = (*decision.commit.writes, PutToolCall(Failed(call, "no")))
    return evolve(decision, commit=evolve(decision.commit, writes=writes))


FAULTS: Final = (
    PlantedFault(
        "a call that has ended ends again",
        row(ResumeTurn, ToolResultsArrived, _ended_again),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "a call ends that nobody asked for",
        decisions(RunModel, TurnCompleted, _of_no_call),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "the turn resumes without having counted a result",
        waits(ResumeTurn, _one_result_less),
        "three-effects",
        "model is called after all results",
    ),
    PlantedFault(
        "a result is published twice",
        decisions(CallTool, ToolReturned, publishing(lambda told: told * 2)),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "a result is not published",
        decisions(CallTool, ToolReturned, publishing(lambda told: ())),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "a result is not recorded",
        decisions(CallTool, ToolReturned, writing(without(PutToolCall))),
        "two-messages",
        _RESULT,
    ),
    PlantedFault(
        "the turn resumes one result early",
        both(
            waits(ResumeTurn, _one_result_less),
            row(ResumeTurn, ToolResultsArrived, _goes_on_whatever_is_open),
        ),
        "three-effects",
        "model is called after all results",
    ),
    PlantedFault(
        "a rejection does not end its call",
        decisions(AwaitToolApproval, InterruptAnswered, writing(without(PutToolCall))),
        "two-questions",
        _RESULT,
    ),
)
