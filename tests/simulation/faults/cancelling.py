"""Faults in cancelling."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pytest
from attrs import evolve

from dex_agents_model import table
from dex_agents_model.decision import (
    DrainChannels,
    RpcDecision,
    SetCancelledTurn,
    SetInterrupts,
    SetState,
)
from dex_agents_model.effects import UnfinishedTurnBuilt
from dex_agents_model.requests import CancelTurn
from dex_agents_model.simulation import world
from dex_agents_model.spec import Lock, Spec
from dex_agents_model.steps import (
    AwaitUserMessage,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    RecordTurnCancelled,
    RecordTurnFailure,
    ResumeTurn,
)

from ..planting import both, decisions, replies, rpc, spec, without, writing
from .planted import (
    QUESTIONS_MIRROR_CALLS,
    REST_IS_FOR_PEOPLE,
    PlantedFault,
    dropping,
    without_user_messages,
)


def _sparing_those_that_record(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    recording = (RecordToolFailure, RecordToolOutcomeUnknown)
    return evolve(decision, cancel=tuple(s for s in decision.cancel if s not in recording))


_CANCEL: Final[Any] = table.RPC_OF[CancelTurn].rule


def _cancelling_a_stale_state(request: object, view: Any, now: datetime) -> RpcDecision[bool]:
    decision: RpcDecision[bool] = _CANCEL(request, view, now)
    if view.state is None or not decision.cancel:
        return decision
    return evolve(decision, writes=(*decision.writes, SetState(view.state)))


def _over_whatever_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spec, "is_over", lambda spec, step, view: False)


def _sparing_resume(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(decision, cancel=tuple(s for s in decision.cancel if s is not ResumeTurn))


RESUME_UNLOCKED: Final = spec(ResumeTurn, execute_locks=())
CANCELLED_UNLOCKED: Final = spec(RecordTurnCancelled, execute_locks=())
"""Two locks that stand behind another line: no promise breaks before that one is dropped, too."""

FAULTS: Final = (
    PlantedFault(
        "cancel_turn locks no questions",
        rpc(CancelTurn, locks=(Lock.STATE,)),
        "cancel",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "cancel_turn locks no state",
        rpc(CancelTurn, locks=(Lock.INTERRUPTS,)),
        "cancel-and-queue",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn does not mark the turn",
        replies(CancelTurn, dropping(SetCancelledTurn)),
        "cancel",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn writes the state that it read",
        rpc(CancelTurn, rule=_cancelling_a_stale_state),
        "cancel",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn leaves the questions",
        replies(CancelTurn, dropping(SetInterrupts)),
        "cancel",
        QUESTIONS_MIRROR_CALLS,
    ),
    PlantedFault(
        "cancel_turn spares those that record results",
        replies(CancelTurn, _sparing_those_that_record),
        "stale-claim",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "a cancelled turn leaves its results",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, writing(without(DrainChannels))),
        "cancel",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "a cancelled turn leaves no note",
        decisions(RecordTurnCancelled, UnfinishedTurnBuilt, without_user_messages),
        "stale-claim",
        "a turn without answer tells what ran",
    ),
    PlantedFault(
        "AwaitUserMessage takes no lock",
        spec(AwaitUserMessage, execute_locks=()),
        "cancel-and-queue",
        "one control branch is live",
    ),
    PlantedFault(
        "the Steps of a turn that is over go on",
        _over_whatever_is_cancelled,
        "cancel",
        "no rule is surprised",
    ),
    PlantedFault(
        "a Step holds its lock while it waits",
        lambda patch: patch.setattr(world, "_RUNNING", world._RUNNING | {world.Phase.WAITING}),
        "stale-claim",
        REST_IS_FOR_PEOPLE,
    ),
    PlantedFault(
        "a cancelled turn leaves its answers",
        decisions(
            RecordTurnCancelled,
            UnfinishedTurnBuilt,
            writing(lambda w: DrainChannels(()) if isinstance(w, DrainChannels) else w),
        ),
        "cancel",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "RecordTurnFailure takes no lock",
        spec(RecordTurnFailure, execute_locks=()),
        "cancel-failing",
        "one control branch is live",
    ),
    PlantedFault(
        "cancel_turn spares ResumeTurn, which takes no lock",
        both(replies(CancelTurn, _sparing_resume), RESUME_UNLOCKED),
        "cancel",
        "one control branch is live",
    ),
    PlantedFault(
        "RecordTurnFailure heeds no cancel, and RecordTurnCancelled takes no lock",
        both(spec(RecordTurnFailure, outlives_cancel=True), CANCELLED_UNLOCKED),
        "cancel-failing",
        "one control branch is live",
    ),
)
