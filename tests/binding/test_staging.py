"""Each Write, Publish and Wait of the model means on Dex what it says: one Step stages it, the next one meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import dex
import pytest
from attrs import frozen

from dex_agents_model import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentToolCall,
    AgentUsage,
    AgentUserMessage,
    InterruptId,
    MessageRole,
    ToolCallId,
    ToolEffect,
    TurnId,
)
from dex_agents_model.calls import (
    AwaitingApproval,
    Failed,
    OutcomeUnknown,
    Rejected,
    RequestedToolCall,
    Runnable,
    Succeeded,
)
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    InterruptResolved,
    Publish,
    PutToolCall,
    SetInterrupts,
    SetRunState,
    SetState,
    SetTakenRequestIds,
    SetUsage,
    ToolCallFinished,
    UserMessageQueued,
    Write,
)
from dex_agents_model.effects import (
    DeadlineReached,
    Entered,
    InterruptAnswered,
    ToolResultsArrived,
    UserSpoke,
)
from dex_agents_model.records import (
    RunningModel,
    RunningTools,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.steps import AwaitToolApproval, AwaitUserMessage, ResumeTurn, RunModel, Step
from dex_agents_model.waits import (
    ForInterruptResolution,
    ForToolResults,
    ForUserMessage,
    NoWait,
    Wait,
)

from .conftest import Served
from .staging import Found, Laboratory, Woken

TURN = TurnId("turn-1")
CALL = ToolCallId("a call")
OTHER_CALL = ToolCallId("\N{SNOWMAN} % .")
LONG = "é" * 300_000
"""Longer than a part."""


def requested(
    call: ToolCallId = CALL, *, order: int = 0, arguments: str = "{}"
) -> RequestedToolCall:
    return RequestedToolCall(TURN, call, "pay", arguments, ToolEffect.READ, False, order)


def message(sequence: int, text: str) -> AgentMessage:
    return AgentMessage(sequence, TURN, MessageRole.TOOL, f"item {text}", text, "c", "pay")


QUESTIONS = (
    AgentInterrupt(InterruptId("turn-1.a"), TURN, ToolCallId("a"), "pay", "{}", "sha256:0"),
    AgentInterrupt(
        InterruptId("turn-1.b"),
        *(TURN, ToolCallId("b"), "pay", "{}", "sha256:1"),
        deadline=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    ),
)
USAGE = AgentUsage(1, 2, 3, 4, 5, 6)
STATES: tuple[AgentState, ...] = (
    WaitingForUserMessage(),
    WaitingForUserMessage(1, 2, TurnSucceeded(1)),
    WaitingForUserMessage(1, 2, TurnFailed("it broke")),
    RunningModel(1, 1, 0),
    RunningTools(3, 9, 2),
)
RECORDS: tuple[AgentToolCall, ...] = (
    AwaitingApproval(requested()),
    Runnable(requested()),
    Succeeded(requested(), "out", output_truncated=True),
    Rejected(requested(), "no", expired=True),
    Failed(requested(), "it said no"),
    OutcomeUnknown(requested(), "it was cut off"),
)


@frozen
class Staged:
    """Commits, one Step each, and what is found after them."""

    commits: tuple[tuple[Write, ...], ...]
    found: Found


def staged(*commits: tuple[Write, ...], found: Found) -> Staged:
    return Staged(commits, found)


OPEN, DONE = Runnable(requested(arguments=LONG)), Succeeded(requested(arguments=LONG), LONG)
SECOND = Succeeded(requested(OTHER_CALL, order=1), "out")
TEXTS = (message(1, "short"), message(2, LONG))
SAID = AgentMessage(1, TURN, MessageRole.USER, '{"user": "hello"}', "hello")

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
        (SetTakenRequestIds(("a", "b")),), found=Found(taken_request_ids=("a", "b"))
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
        found=Found(tool_calls=(DONE,), entries={"AgentToolCalls": 1, "AgentToolCallParts": 4}),
    ),
    "run state": staged(
        (SetRunState("so far"),),
        found=Found(run_state="so far", entries={"FrameworkRunState": 1}),
    ),
    "long run state": staged(
        (SetRunState(LONG),),
        found=Found(run_state=LONG, entries={"FrameworkRunState": 2}),
    ),
    "shorter run state": staged(
        (SetRunState(LONG),),
        (SetRunState("so far"),),
        found=Found(run_state="so far", entries={"FrameworkRunState": 1}),
    ),
    "messages": staged(
        (AppendMessages(TEXTS[:1]),),
        (AppendMessages(TEXTS[1:]),),
        found=Found(messages=TEXTS, entries={"AgentMessages": 2, "AgentMessageParts": 4}),
    ),
    "user message": staged(
        (AppendUserMessage(1, TURN, "hello"),),
        found=Found(messages=(SAID,), entries={"AgentMessages": 1}),
    ),
    "cleared turn": staged(
        (AppendUserMessage(1, TURN, "hello"), SetRunState(LONG)),
        (PutToolCall(OPEN), PutToolCall(SECOND)),
        (PutToolCall(DONE),),
        (ClearTurn(),),
        found=Found(messages=(SAID,), entries={"AgentMessages": 1}),
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


@pytest.fixture
def laboratory(served: Served, tmp_path: Path) -> Iterator[Laboratory]:
    cache = dex.open_blob_cache(dex.BlobCacheConfig(str(tmp_path), 64 * 1024 * 1024))
    yield Laboratory(served.server_address, cache)
    cache.close()


@pytest.mark.parametrize("name", STAGED)
async def test_writes__are_read_by_the_next_step(
    laboratory: Laboratory, new_session_id: Callable[[], str], name: str
) -> None:
    case = STAGED[name]

    assert await laboratory.stage(new_session_id(), case.commits) == case.found


def test_writes__are_all_staged_by_some_case() -> None:
    kinds = {type(write) for case in STAGED.values() for writes in case.commits for write in writes}
    assert kinds == set(get_args(Write))


# --- waits -----------------------------------------------------------------------------------

ASKED = InterruptId.of(TURN, CALL)
OTHER = InterruptId.of(TURN, OTHER_CALL)
YES = AgentInterruptResolution(ASKED, approved=True)
NO = AgentInterruptResolution(OTHER, approved=False, rejection_message="no")
ANSWERED = (InterruptResolved(NO), InterruptResolved(YES))
RESULTS = tuple(ToolCallFinished(Failed(requested(ToolCallId(name)), "no")) for name in "abc")
SPOKEN = tuple(AgentUserMessage(text, f"id of {text}") for text in ("first", "second"))


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
        tuple(map(UserMessageQueued, SPOKEN)),
        Woken(occurrence=UserSpoke(SPOKEN[0]), user_messages=1),
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
        Woken(occurrence=InterruptAnswered(YES), resolutions=1),
    ),
    "answer before the deadline": Waited(
        AwaitToolApproval(TURN, CALL),
        ForInterruptResolution(ASKED, timedelta(days=1)),
        ANSWERED,
        Woken(occurrence=InterruptAnswered(YES), resolutions=1),
    ),
    "deadline": Waited(
        AwaitToolApproval(TURN, CALL),
        ForInterruptResolution(ASKED, timedelta(0)),
        (InterruptResolved(NO),),
        Woken(occurrence=DeadlineReached(), resolutions=1),
    ),
}


@pytest.mark.parametrize("name", WAITED)
async def test_waits__end_with_what_they_are_for_and_take_no_more(
    laboratory: Laboratory, new_session_id: Callable[[], str], name: str
) -> None:
    case = WAITED[name]

    woken = await laboratory.wake(new_session_id(), case.step, case.publishes, case.wait)

    assert woken == case.woken


def test_waits__and_publishes_all_belong_to_some_case() -> None:
    assert {type(case.wait) for case in WAITED.values()} == set(get_args(Wait))
    published = {type(publish) for case in WAITED.values() for publish in case.publishes}
    assert published == set(get_args(Publish))
