"""Each Wait of the model means on Dex what it says: it ends with what it is for, and takes no more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import get_args

import pytest
from attrs import frozen

from dex_agents_model.decision import (
    InterruptResolved,
    Publish,
    SteeringQueued,
)
from dex_agents_model.effects import (
    DeadlineReached,
    Entered,
    InterruptAnswered,
    ToolResultsArrived,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.steps import AwaitToolApproval, AwaitUserMessage, ResumeTurn, RunModel, Step
from dex_agents_model.waits import (
    ForInterruptResolution,
    ForToolResults,
    ForUserMessage,
    NoWait,
    Wait,
)

from .found import Woken
from .laboratory import Laboratory
from .samples import ANSWERED, ASKED, CALL, NO, QUEUED, RESULTS, SPOKEN, STEERED, TURN, YES


@frozen
class Waited:
    """A Step of the model, what it waits for, what was published before, and how it wakes."""

    step: Step
    wait: Wait
    publishes: tuple[Publish, ...]
    woken: Woken


WAITED: dict[str, Waited] = {
    "no wait": Waited(RunModel(TURN), NoWait(), (), Woken(occurrence=Entered())),
    "user message": Waited(
        AwaitUserMessage(),
        ForUserMessage(),
        QUEUED,
        Woken(occurrence=UserSpoke(SPOKEN[0]), user_messages=1),
    ),
    "steering ahead of the queue": Waited(
        AwaitUserMessage(),
        ForUserMessage(),
        (*QUEUED, *map(SteeringQueued, STEERED)),
        Woken(occurrence=UserSteered(STEERED[0]), steering=1, user_messages=2),
    ),
    "tool results": Waited(
        ResumeTurn(TURN, 2),
        ForToolResults(2),
        RESULTS,
        Woken(occurrence=ToolResultsArrived(), tool_results=1),
    ),
    "answer": Waited(
        AwaitToolApproval(TURN, CALL),
        ForInterruptResolution(ASKED),
        ANSWERED,
        Woken(occurrence=InterruptAnswered(YES), answers=1),
    ),
    "answer before the deadline": Waited(
        AwaitToolApproval(TURN, CALL),
        ForInterruptResolution(ASKED, timedelta(days=1)),
        ANSWERED,
        Woken(occurrence=InterruptAnswered(YES), answers=1),
    ),
    "deadline": Waited(
        AwaitToolApproval(TURN, CALL),
        ForInterruptResolution(ASKED, timedelta(0)),
        (InterruptResolved(NO),),
        Woken(occurrence=DeadlineReached(), answers=1),
    ),
}


@pytest.mark.parametrize("name", WAITED)
async def test_waits__end_with_what_they_are_for_and_take_no_more(
    laboratory: Laboratory, new_session_id: Callable[[], str], name: str
) -> None:
    case = WAITED[name]

    woken = await laboratory.wake(new_session_id(), case.step, case.publishes, case.wait)

    assert woken == case.woken


def test_waits__are_all_waited_for_in_some_case() -> None:
    assert {type(case.wait) for case in WAITED.values()} == set(get_args(Wait))
