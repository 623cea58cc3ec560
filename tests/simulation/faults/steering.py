"""Faults in steering."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast

from attrs import evolve

from dex_agents_model import table
from dex_agents_model.decision import (
    Commit,
    InterruptResolved,
    RpcDecision,
    SetInterrupts,
    TakeSteering,
    WaitDecision,
    Write,
)
from dex_agents_model.effects import ToolResultsArrived, UnfinishedTurnBuilt
from dex_agents_model.ids import InterruptId
from dex_agents_model.records import AgentInterruptResolution
from dex_agents_model.requests import SteerUserMessage
from dex_agents_model.simulation import evaluation
from dex_agents_model.simulation.channels import Condition, condition_of
from dex_agents_model.spec import Lock
from dex_agents_model.steps import AwaitToolApproval, RecordTurnCancelled, ResumeTurn
from dex_agents_model.waits import ForInterruptResolution, Wait

from ..planting import decisions, replies, rpc, spec, waits, writing
from .planted import (
    ANSWERS_ARE_APPLIED,
    MESSAGES_ARE_TAKEN_ONCE,
    QUESTIONS_MIRROR_CALLS,
    REST_IS_FOR_PEOPLE,
    PlantedFault,
    without_user_messages,
)


def _in_reverse(wait: Wait) -> Condition | None:
    condition = condition_of(wait)
    return condition and evolve(condition, any_of=condition.any_of[::-1])


def _keeping_it_in_the_channel(write: Write) -> Write:
    return evolve(write, channel_message_ids=()) if isinstance(write, TakeSteering) else write


def _wiping_every_question(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(decision, writes=(*decision.writes, SetInterrupts(())))


_STEER: Final[Any] = table.RPC_OF[SteerUserMessage].rule
_WAIT_FOR_ANSWER: Final[Any] = table.SPEC_OF[AwaitToolApproval].wait


def _steered_without_a_look(step: AwaitToolApproval, view: Any, now: datetime) -> WaitDecision:
    """A pending steering message rejects the call, though its question was answered before."""
    asked = view.record and InterruptId.of(step.turn, step.call)
    if not view.pending_steering or any(i.interrupt_id == asked for i in view.interrupts):
        return cast("WaitDecision", _WAIT_FOR_ANSWER(step, view, now))
    no = AgentInterruptResolution(asked, False, now, "superseded", superseded=True)
    return WaitDecision(
        commit=Commit(publishes=(InterruptResolved(no),)), wait=ForInterruptResolution(asked)
    )


def _steered_and_still_asked(decision: WaitDecision) -> WaitDecision:
    return evolve(decision, commit=evolve(decision.commit, writes=()))


def _deaf_to_steering(step: AwaitToolApproval, view: Any, now: datetime) -> WaitDecision:
    return cast("WaitDecision", _WAIT_FOR_ANSWER(step, evolve(view, pending_steering=()), now))


def _rewriting_the_questions(request: object, view: Any, now: datetime) -> RpcDecision[bool]:
    """The list is written as it was read, though nothing is rejected."""
    decision: RpcDecision[bool] = _STEER(request, view, now)
    if any(isinstance(write, SetInterrupts) for write in decision.writes):
        return decision
    return evolve(decision, writes=(*decision.writes, SetInterrupts(view.interrupts)))


FAULTS: Final = (
    PlantedFault(
        "steering stays in its Channel",
        decisions(ResumeTurn, ToolResultsArrived, writing(_keeping_it_in_the_channel)),
        "cancel-keeping-items",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "a cancelled turn forgets what steered it",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, without_user_messages),
        "cancel-keeping-items",
        "steering enters history once",
    ),
    PlantedFault(
        "steering rejects a call that was answered",
        spec(AwaitToolApproval, wait=_steered_without_a_look),
        "steer",
        ANSWERS_ARE_APPLIED,
    ),
    PlantedFault(
        "steering rejects a call and leaves its question",
        waits(AwaitToolApproval, _steered_and_still_asked),
        "steer",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "a question raised after the steering waits",
        spec(AwaitToolApproval, wait=_deaf_to_steering),
        "steer",
        REST_IS_FOR_PEOPLE,
    ),
    PlantedFault(
        "steer_user_message wipes questions that it did not see",
        replies(SteerUserMessage, _wiping_every_question),
        "steer",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "the queue goes ahead of steering",
        lambda patch: patch.setattr(evaluation, "condition_of", _in_reverse),
        "steer-and-queue",
        "steering goes ahead of the queue",
    ),
    PlantedFault(
        "steer_user_message rewrites the questions that it rejects none of",
        rpc(SteerUserMessage, rule=_rewriting_the_questions),
        "steer",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "steer_user_message locks no request IDs",
        rpc(SteerUserMessage, locks=(Lock.INTERRUPTS,)),
        "steer-and-queue",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
)
