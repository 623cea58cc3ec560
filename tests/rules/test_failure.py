"""How a turn ends without an answer, and what the next turn is told of it."""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_model.calls import (
    AgentToolCall,
    Failed,
    OutcomeUnknown,
    Rejected,
    Succeeded,
    ToolEffect,
)
from dex_agents_model.decision import (
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    SetState,
    StepDecision,
    Write,
)
from dex_agents_model.effects import AttemptsExhausted, Entered
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import RunningModel, TurnFailed, WaitingForUserMessage
from dex_agents_model.steps import AwaitUserMessage, RecordTurnFailure, RunModel
from dex_agents_model.table import react
from dex_agents_model.views import TurnRecordsView, TurnView

from .cases import Case, Reacts, claim_of
from .samples import NOW, TURN, USING_TOOLS, call, view

STEP: Final = RecordTurnFailure(TURN)
RESUMED: Final = RunningModel(turn_count=2, message_count=3, model_calls=1)

FOUND: Final = Succeeded(call("a", arguments='{"n": 1}'), "found")
REFUSED: Final = Rejected(call("b", order=1), "not now")
BROKEN: Final = Failed(call("c", order=2), "no such order")
LOST: Final = OutcomeUnknown(call("d", ToolEffect.UNCLASSIFIED, order=3), "worker lost")

NOTE: Final = """\
[Dex] The previous turn failed after these tool calls ran:
- tool_a {"n": 1} -> succeeded: found
- tool_b {} -> rejected: not now
- tool_c {} -> failed: The tool call failed: no such order
- tool_d {} -> outcome_unknown: The outcome of this tool call is unknown: it was cut off, \
and its work may or may not have been done. Check before you call it again.
Do not repeat these tool calls unless the user asks again."""


def failed(error: str, note: str | None = None) -> StepDecision:
    """The turn is over; ``note`` is stored as the user's when there is one."""
    noted: tuple[Write, ...] = () if note is None else (AppendUserMessage(4, TURN, note),)
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(WaitingForUserMessage(2, 3 + len(noted), TurnFailed(error))),
                *noted,
                ClearTurn(),
            )
        ),
        next=GoTo((AwaitUserMessage(),)),
    )


WITH_WORDS: Final = AttemptsExhausted("lost", "TimeoutError")


def fails(
    claim: str,
    records: tuple[AgentToolCall, ...],
    note: str | None,
    lost: AttemptsExhausted = WITH_WORDS,
    error: str = "lost",
) -> Reacts:
    return Reacts(
        f"record_turn_failure__{claim}",
        STEP,
        view(TurnRecordsView, state=RESUMED, tool_calls=records),
        lost,
        failed(error, note),
    )


LONG: Final = "x" * 8193
CASES: tuple[Case, ...] = (
    fails("notes_every_ended_call_in_model_order", (LOST, BROKEN, FOUND, REFUSED), NOTE),
    fails("notes_nothing_when_no_tool_was_asked_for", (), None),
    fails("notes_nothing_when_no_tool_ran", (REFUSED,), None),
    fails(
        "names_an_error_without_words", (), None, AttemptsExhausted("", "TimeoutError"), "TimeoutError"
    ),
    fails(
        "says_that_it_knows_no_error",
        (),
        None,
        AttemptsExhausted(""),
        "the model call was given up without an error",
    ),
    fails("cleans_the_error", (), None, AttemptsExhausted("\x00\ud800"), "\ufffd\ufffd"),
    fails(
        "shortens_the_error",
        (),
        None,
        AttemptsExhausted(LONG),
        LONG[:8192] + "... [8193 bytes in full]",
    ),
    Reacts(
        "call_the_model__notes_what_ran_in_a_turn_that_used_up_its_calls",
        RunModel(TURN),
        view(
            TurnView,
            state=RESUMED,
            run_state="state",
            tool_calls=(FOUND, REFUSED, BROKEN, LOST),
            options=AgentSessionOptions(max_model_calls_per_turn=1),
        ),
        Entered(),
        failed(
            "the turn made 1 model calls without a final answer; max_model_calls_per_turn is 1",
            NOTE,
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_failure(case: Case) -> None:
    assert case.result() == case.then


def test_record_turn_failure__refuses_a_turn_that_runs_tools() -> None:
    given = view(TurnRecordsView, state=USING_TOOLS)

    with pytest.raises(StateCorrupt, match="turn-2 lost its model call in the state RunningTools"):
        react(STEP, given, AttemptsExhausted("lost"), NOW)
