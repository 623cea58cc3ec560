"""Faults in single-attempt calls: claims, fences, and what is said of a call that was cut off."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast

import pytest
from attrs import evolve

from dex_agents_model import table
from dex_agents_model.calls import Failed, Runnable
from dex_agents_model.decision import (
    ClaimCall,
    EndBranch,
    PutToolCall,
    RpcDecision,
    StepDecision,
    Write,
)
from dex_agents_model.effects import AttemptsExhausted, ToolCallsRequested, ToolRaised
from dex_agents_model.errors import ClaimRefused
from dex_agents_model.performing import perform
from dex_agents_model.requests import ClaimToolCall
from dex_agents_model.rules import failure, tools
from dex_agents_model.simulation import port
from dex_agents_model.steps import CallSingleAttemptTool, RecordToolOutcomeUnknown, RunModel, Step

from ..planting import Rule, both, decisions, replies, row, rpc, spec, writing
from .planted import REST_IS_FOR_PEOPLE, PlantedFault, dropping, finished


def _calls_it_failed(
    rule: Rule, step: Step, view: Any, on: AttemptsExhausted, now: datetime
) -> StepDecision:
    return finished(Failed(view.record.call, on.detail))


def _unsaid_whether_fenced(write: Write) -> Write:
    if isinstance(write, PutToolCall) and isinstance(write.record, Runnable):
        return PutToolCall(Runnable(evolve(write.record.call, fenced=None)))
    return write


_CLAIM: Final[Any] = table.RPC_OF[ClaimToolCall].rule


def _granting_anyone(request: ClaimToolCall, view: Any, now: datetime) -> RpcDecision[bool]:
    return RpcDecision(writes=(ClaimCall(request.call, request.claimant),), reply=True)


def _granting_whatever_ended(request: object, view: Any, now: datetime) -> RpcDecision[bool]:
    return cast("RpcDecision[bool]", _CLAIM(request, evolve(view, cancelled_turn=None), now))


def _a_refused_claim_ends_the_branch(patch: pytest.MonkeyPatch) -> None:
    async def forgiving(*given: Any) -> object:
        try:
            return await perform(*given)
        except ClaimRefused:
            return ToolRaised("")

    patch.setattr(port, "perform", forgiving)
    row(CallSingleAttemptTool, ToolRaised, lambda *given: StepDecision(next=EndBranch()))(patch)


_SINGLE: Final = table.SPEC_OF[CallSingleAttemptTool].limits


def _as_if_it_never_started(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failure, "may_have_started", lambda record, *, claimed: False)


FAULTS: Final = (
    PlantedFault(
        "a single-attempt tool is tried again",
        spec(CallSingleAttemptTool, limits=evolve(_SINGLE, attempts=2)),
        "three-effects",
        "single attempt tools start once",
    ),
    PlantedFault(
        "a write that was cut off is called failed",
        row(RecordToolOutcomeUnknown, AttemptsExhausted, _calls_it_failed),
        "three-effects",
        "a write that started is not called failed",
    ),
    PlantedFault(
        "a claim is not written",
        replies(ClaimToolCall, dropping(ClaimCall)),
        "stale-claim",
        "single attempt tools start once",
    ),
    PlantedFault(
        "every claim is granted",
        rpc(ClaimToolCall, rule=_granting_anyone),
        "stale-claim",
        "single attempt tools start once",
    ),
    PlantedFault(
        "a claim is granted after the cancel",
        rpc(ClaimToolCall, rule=_granting_whatever_ended),
        "stale-claim",
        "nothing of a cancelled turn starts",
    ),
    PlantedFault(
        "claim_tool_call takes no lock",
        rpc(ClaimToolCall, locks=()),
        "stale-claim",
        "nothing of a cancelled turn starts",
    ),
    PlantedFault(
        "each Worker asks its own options whether a call was fenced",
        both(
            decisions(RunModel, ToolCallsRequested, writing(_unsaid_whether_fenced)),
            lambda patch: patch.setattr(
                tools, "may_have_started", lambda record, *, claimed: claimed
            ),
        ),
        "rolling-deploy",
        "a write that started is not called failed",
    ),
    PlantedFault(
        "RecordToolOutcomeUnknown takes no lock",
        spec(RecordToolOutcomeUnknown, execute_locks=()),
        "stale-claim",
        "a write that started is not called failed",
    ),
    PlantedFault(
        "a refused claim ends its branch",
        _a_refused_claim_ends_the_branch,
        "stale-claim",
        REST_IS_FOR_PEOPLE,
    ),
    PlantedFault(
        "a started write is recorded as cancelled",
        _as_if_it_never_started,
        "stale-claim",
        "a write that started is not called cancelled",
    ),
)
