"""Each Write and Publish of the model means on Dex what it says: one Step stages it, the next one reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from attrs import frozen

from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClaimCall,
    ClearTurn,
    DrainChannels,
    DropMessages,
    Publish,
    PutToolCall,
    RecordApproval,
    SetCancelledTurn,
    SetInterrupts,
    SetRunState,
    SetState,
    SetSummary,
    SetTakenRequestIds,
    SetUsage,
    SteeringQueued,
    TakeSteering,
    WithdrawQueued,
    Write,
)

from .found import Change, Changes, Found
from .laboratory import Laboratory
from .samples import (
    ANSWERED,
    ASKED,
    DECIDED,
    DONE,
    EDITED,
    FENCED,
    HELLO,
    LONG,
    NEWER,
    NO,
    ONE_SUMMARY,
    OPEN,
    OTHER_CALL,
    QUESTIONS,
    QUEUED,
    RECORDS,
    RESULTS,
    SAID,
    SECOND,
    SPOKEN,
    STATES,
    STEERED,
    SUMMARISED,
    SUMMARY,
    TAKEN,
    TEXTS,
    TURN,
    USAGE,
    YES,
)


@frozen
class Staged:
    """Commits, one Step each, and what is found after them."""

    commits: tuple[Changes, ...]
    found: Found


def staged(*commits: Changes, found: Found) -> Staged:
    return Staged(commits, found)


def take_first_steering(found: Found) -> tuple[Change, ...]:
    """What a turn does that is steered by the older of two messages."""
    return (TakeSteering(found.steering_ids[:1], 0, TAKEN[:1]),)


def withdraw_first_queued(found: Found) -> tuple[Change, ...]:
    """What a withdrawal of the older of two messages does."""
    return (WithdrawQueued(found.queued_ids[0]),)


STAGED: dict[str, Staged] = {
    "nothing": staged((), found=Found()),
    **{
        f"state {number}": staged((SetState(state),), found=Found(state=state))
        for number, state in enumerate(STATES)
    },
    "usage": staged((SetUsage(USAGE),), found=Found(usage=USAGE)),
    "interrupts": staged((SetInterrupts(QUESTIONS),), found=Found(interrupts=QUESTIONS)),
    "no interrupts": staged((SetInterrupts(QUESTIONS),), (SetInterrupts(()),), found=Found()),
    "request ids": staged(
        (SetTakenRequestIds(("a", "b")),),
        found=Found(taken_request_ids=("a", "b"), entries={"TakenRequestIds": 1}),
    ),
    **{
        f"{record.status} call": staged(
            (PutToolCall(record),),
            found=Found(tool_calls=(record,), entries={"AgentToolCalls": 1}),
        )
        for record in RECORDS
    },
    "calls in model order": staged(
        (PutToolCall(SECOND),),
        (PutToolCall(RECORDS[0]),),
        found=Found(tool_calls=(RECORDS[0], SECOND), entries={"AgentToolCalls": 2}),
    ),
    "long call": staged(
        (PutToolCall(OPEN),),
        (PutToolCall(DONE),),
        found=Found(tool_calls=(DONE,), entries={"AgentToolCalls": 1, "AgentToolCallParts": 6}),
    ),
    "call with shorter arguments": staged(
        (PutToolCall(OPEN),),
        (PutToolCall(EDITED),),
        found=Found(tool_calls=(EDITED,), entries={"AgentToolCalls": 1}),
    ),
    "run state": staged(
        (SetRunState("so far"),),
        found=Found(run_state="so far", entries={"FrameworkRunState": 1}),
    ),
    "long run state": staged(
        (SetRunState(LONG),),
        found=Found(run_state=LONG, entries={"FrameworkRunState": 19}),
    ),
    "shorter run state": staged(
        (SetRunState(LONG),),
        (SetRunState("so far"),),
        found=Found(run_state="so far", entries={"FrameworkRunState": 1}),
    ),
    "grown run state": staged(
        (SetRunState(LONG),),
        (SetRunState(LONG + "more"),),
        found=Found(run_state=LONG + "more", entries={"FrameworkRunState": 19}),
    ),
    "messages": staged(
        (AppendMessages(TEXTS[:1]),),
        (AppendMessages(TEXTS[1:]),),
        found=Found(messages=TEXTS, entries={"AgentMessages": 2, "AgentMessageParts": 6}),
    ),
    "user message": staged(
        (AppendUserMessage(1, TURN, HELLO),),
        found=Found(messages=(SAID,), entries={"AgentMessages": 1}),
    ),
    "summary": staged((SetSummary(SUMMARY),), found=Found(summary=SUMMARY, entries=ONE_SUMMARY)),
    "newer summary": staged(
        (SetSummary(SUMMARY),),
        (SetSummary(NEWER),),
        found=Found(summary=NEWER, entries=ONE_SUMMARY),
    ),
    "messages behind a summary": staged(
        (AppendMessages(TEXTS), SetState(SUMMARISED), SetSummary(SUMMARY)),
        found=Found(
            state=SUMMARISED,
            messages=TEXTS[1:],
            summary=SUMMARY,
            entries={"AgentMessages": 2, "AgentMessageParts": 6, **ONE_SUMMARY},
        ),
    ),
    "dropped messages": staged(
        (AppendMessages(TEXTS),),
        (DropMessages((2,)),),
        found=Found(messages=TEXTS[:1], entries={"AgentMessages": 1}),
    ),
    "cleared turn": staged(
        (AppendUserMessage(1, TURN, HELLO), SetRunState(LONG), TakeSteering((), 0, TAKEN)),
        (PutToolCall(OPEN), PutToolCall(FENCED), ClaimCall(OTHER_CALL, "a claimant")),
        (PutToolCall(DONE),),
        (ClearTurn(),),
        found=Found(messages=(SAID,), entries={"AgentMessages": 1}),
    ),
    "cancelled turn": staged((SetCancelledTurn(TURN),), found=Found(cancelled_turn=TURN)),
    "claim": staged(
        (ClaimCall(OTHER_CALL, "a claimant"),),
        found=Found(claimed=frozenset({OTHER_CALL}), entries={"ToolCallClaims": 1}),
    ),
    "queued messages": staged(QUEUED, found=Found(queued=SPOKEN)),
    "withdrawn message": staged(QUEUED, withdraw_first_queued, found=Found(queued=SPOKEN[1:])),
    "steering": staged(tuple(map(SteeringQueued, STEERED)), found=Found(steering=STEERED)),
    "taken steering": staged(
        tuple(map(SteeringQueued, STEERED)),
        take_first_steering,
        found=Found(steering=STEERED[1:], taken_steering=TAKEN[:1], entries={"TakenSteering": 1}),
    ),
    "more steering": staged(
        (TakeSteering((), 0, TAKEN[:1]),),
        (TakeSteering((), 1, TAKEN[1:]),),
        found=Found(taken_steering=TAKEN, entries={"TakenSteering": 2}),
    ),
    "answers": staged(ANSWERED, found=Found(answers=(YES, NO))),
    "drained answer": staged(ANSWERED, (DrainChannels((ASKED,)),), found=Found(answers=(NO,))),
    "answer and results": staged(
        (*ANSWERED[1:], *RESULTS), found=Found(answers=(YES,), tool_results=3)
    ),
    "drained answer and results": staged(
        (*ANSWERED[1:], *RESULTS), (DrainChannels((ASKED,)),), found=Found()
    ),
    "approvals": staged(
        tuple(RecordApproval(record, number) for number, record in enumerate(DECIDED)),
        found=Found(approvals=DECIDED, approval_count=2, entries={"Approvals": 2}),
    ),
    "all of a commit": staged(
        (SetState(STATES[3]), SetUsage(USAGE), SetRunState("so far"), PutToolCall(SECOND)),
        found=Found(
            state=STATES[3],
            usage=USAGE,
            run_state="so far",
            tool_calls=(SECOND,),
            entries={"FrameworkRunState": 1, "AgentToolCalls": 1},
        ),
    ),
}


@pytest.mark.parametrize("name", STAGED)
async def test_changes__are_read_by_the_next_step(
    laboratory: Laboratory, new_session_id: Callable[[], str], name: str
) -> None:
    case = STAGED[name]

    assert await laboratory.stage(new_session_id(), case.commits) == case.found


def test_changes__are_all_staged_by_some_case() -> None:
    some = Found(steering_ids=("some id",), queued_ids=("some id",))
    staged_kinds = {
        type(change)
        for case in STAGED.values()
        for changes in case.commits
        for change in (changes(some) if callable(changes) else changes)
    }
    assert staged_kinds == {*get_args(Write), *get_args(Publish)}
