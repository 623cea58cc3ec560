"""How a turn fails, and what the next turn is told of it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from dex_agents_model.calls import (
    Failed,
    OutcomeUnknown,
    Rejected,
    Succeeded,
    ToolEffect,
)
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    SetState,
    SetUsage,
    StepDecision,
    Write,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    BuildUnfinishedTurn,
    Entered,
    Occurrence,
    TurnGivenUp,
    UnfinishedTurnBuilt,
)
from dex_agents_model.errors import ContractBroken, StateCorrupt
from dex_agents_model.events import UsageRecorded
from dex_agents_model.records import (
    AgentMessage,
    AgentUserMessage,
    FrameworkMessage,
    MessageRole,
    RunningModel,
    TakenSteering,
    TurnFailed,
    WaitingForUserMessage,
)
from dex_agents_model.steps import (
    AwaitUserMessage,
    RecordTurnCancelled,
    RecordTurnFailure,
    RunModel,
)
from dex_agents_model.table import react
from dex_agents_model.views import TurnView, UnfinishedTurnView

from .cases import Case, Reacts, claim_of
from .samples import NOW, SUM, TURN, USED, USING_TOOLS, call, over_a_limit, told, view

STEP: Final = RecordTurnFailure(TURN)
BY_RULE: Final = RecordTurnFailure(TURN, "too many")
RESUMED: Final = RunningModel(turn_count=2, message_count=3, model_calls=2, steering_count=3)
LOST: Final = AttemptsExhausted("lost", "TimeoutError")

FOUND: Final = Succeeded(call("a", arguments='{"n": 1}'), "found")
REFUSED: Final = Rejected(call("b", order=1), "not now")
BROKEN: Final = Failed(call("c", order=2), "no such order")
UNKNOWN: Final = OutcomeUnknown(call("d", ToolEffect.UNCLASSIFIED, order=3), "worker lost")
RECORDS: Final = (FOUND, REFUSED, BROKEN, UNKNOWN)

NOTE: Final = """\
[Dex] The previous turn failed after these tool calls ran:
- tool_a {"n": 1} -> succeeded: found
- tool_b {} -> rejected: not now
- tool_c {} -> failed: The tool call failed: no such order
- tool_d {} -> outcome_unknown: The outcome of this tool call is unknown: it was cut off, \
and its work may or may not have been done. Check before you call it again.
Do not repeat these tool calls unless the user asks again."""
SAID: Final = tuple(
    TakenSteering(model_calls, AgentUserMessage(text, f"id of {text}"))
    for model_calls, text in ((1, "sooner"), (2, "now"))
)
ITEMS: Final = (
    FrameworkMessage(MessageRole.ASSISTANT, "<call>"),
    FrameworkMessage(MessageRole.TOOL, "<result>", "found"),
)
KEPT: Final = (
    AgentMessage(4, TURN, MessageRole.ASSISTANT, "<call>"),
    AgentMessage(5, TURN, MessageRole.TOOL, "<result>", "found"),
)


def failed(error: str, *stored: AppendMessages | AppendUserMessage) -> StepDecision:
    """The turn is over; ``stored`` is what the history keeps of it."""
    count = sum(len(s.messages) if isinstance(s, AppendMessages) else 1 for s in stored)
    writes: tuple[Write, ...] = (
        SetState(WaitingForUserMessage(2, 3 + count, TurnFailed(error))),
        *stored,
        ClearTurn(),
    )
    return StepDecision(commit=Commit(writes=writes), next=GoTo((AwaitUserMessage(),)))


def said(sequence: int, text: str, message_id: str = "") -> AppendUserMessage:
    return AppendUserMessage(sequence, TURN, AgentUserMessage(text, message_id))


def unfinished(**changes: Any) -> UnfinishedTurnView:
    return view(UnfinishedTurnView, **{"state": RESUMED, **changes})


WITHOUT_TOOLS = tuple(
    Reacts(f"record_lost_turn__{claim}", STEP, unfinished(), lost, failed(error))
    for claim, lost, error in (
        ("fails_a_turn_that_asked_for_no_tool", LOST, "lost"),
        ("names_an_error_without_words", AttemptsExhausted("", "TimeoutError"), "TimeoutError"),
        ("says_that_it_knows_no_error", AttemptsExhausted(""), "the model call was given up without an error"),
        ("cleans_the_error", AttemptsExhausted("\x00\ud800"), "\ufffd\ufffd"),
        ("shortens_the_error", AttemptsExhausted("x" * 8193), "x" * 8192 + "... [8193 bytes in full]"),
    )
)  # fmt: skip
BY_A_RULE = tuple(
    Reacts(f"record_ended_turn__{claim}", step, unfinished(), Entered(), failed(error))
    for claim, step, error in (
        ("fails_a_turn_that_asked_for_no_tool", BY_RULE, "too many"),
        ("says_that_it_knows_no_error", STEP, "the turn was ended without an error"),
    )
)
GIVEN_UP = tuple(
    Reacts(
        f"give_turn_up__{claim}",
        RunModel(TURN),
        view(TurnView),
        TurnGivenUp(error, USED),
        over_a_limit(kept, Commit(writes=(SetUsage(SUM),), events=told(UsageRecorded(USED, SUM)))),
    )
    for claim, error, kept in (
        ("ends_the_turn_at_once_and_counts_what_it_used", "asked too often", "asked too often"),
        ("says_that_it_knows_no_error", "", "the turn was given up without an error"),
        ("cleans_the_error", "\x00\ud800", "\ufffd\ufffd"),
        ("shortens_the_error", "x" * 8193, "x" * 8192 + "... [8193 bytes in full]"),
    )
)
ASKS = tuple(
    Reacts(
        f"{rule}__asks_the_runner_what_can_be_kept",
        step,
        unfinished(run_state="state", tool_calls=RECORDS),
        on,
        BuildUnfinishedTurn(TURN, "state", RECORDS, error),
    )
    for rule, step, on, error in (
        ("record_lost_turn", STEP, LOST, "lost"),
        ("record_ended_turn", BY_RULE, Entered(), "too many"),
    )
)
ENDS = tuple(
    Reacts(
        f"finish_failed_turn__{claim}",
        STEP,
        unfinished(run_state="state", tool_calls=records, steering=steering),
        UnfinishedTurnBuilt(messages, "lost"),
        failed("lost", *stored),
    )
    for claim, records, steering, messages, stored in (
        ("notes_every_ended_call_in_model_order", RECORDS[::-1], (), None, (said(4, NOTE),)),
        ("notes_nothing_when_no_tool_ran", (REFUSED,), (), None, ()),
        ("keeps_the_exact_items_instead_of_a_note", RECORDS, (), ITEMS, (AppendMessages(KEPT),)),
        ("keeps_no_items_when_there_are_none", RECORDS, (), (), ()),
        ("keeps_what_the_user_said_before_the_note", RECORDS, SAID, None,
         (said(4, "sooner", "id of sooner"), said(5, "now", "id of now"), said(6, NOTE))),
        ("keeps_behind_the_items_only_what_they_do_not_hold", RECORDS, SAID, ITEMS,
         (AppendMessages(KEPT), said(6, "now", "id of now"))),
    )
)  # fmt: skip

NO_ERROR = Reacts(
    "finish_failed_turn__stores_an_empty_error_when_it_is_told_none",
    STEP,
    unfinished(),
    UnfinishedTurnBuilt(None, None),
    failed(""),
)

CASES: tuple[Case, ...] = (NO_ERROR, *WITHOUT_TOOLS, *BY_A_RULE, *GIVEN_UP, *ASKS, *ENDS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_failure(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.parametrize("on", [LOST, Entered()], ids=["lost", "ended"])
def test_record_turn_failure__refuses_a_turn_that_runs_tools(on: Occurrence) -> None:
    message = "turn-2 failed at its model call in the state RunningTools"

    with pytest.raises(StateCorrupt, match=message):
        react(STEP, unfinished(state=USING_TOOLS), on, NOW)


@pytest.mark.parametrize("step", [STEP, RecordTurnCancelled(TURN)], ids=["failed", "cancelled"])
def test_finish_turn__refuses_items_that_cannot_be_stored(
    step: RecordTurnFailure | RecordTurnCancelled,
) -> None:
    unstorable = (FrameworkMessage(MessageRole.TOOL, "\ud800"),)

    with pytest.raises(
        ContractBroken, match="a message of the role tool holds text that UTF-8 cannot"
    ):
        react(step, unfinished(run_state="state"), UnfinishedTurnBuilt(unstorable, "lost"), NOW)
