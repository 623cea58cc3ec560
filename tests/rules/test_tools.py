"""From a runnable call to its one result."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Cancelled,
    Failed,
    FinalCall,
    OutcomeUnknown,
    Rejected,
    Runnable,
    Succeeded,
    ToolEffect,
)
from dex_agents_model.decision import (
    Commit,
    EndBranch,
    PutToolCall,
    StepDecision,
    ToolCallFinished,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    Entered,
    ExecuteTool,
    Occurrence,
    ToolRaised,
    ToolReturned,
)
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import ToolCallFinished as ToolCallFinishedEvent
from dex_agents_model.ids import ToolCallId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.steps import (
    CallSingleAttemptTool,
    CallTool,
    RecordToolFailure,
    RecordToolOutcomeUnknown,
    Step,
)
from dex_agents_model.table import react
from dex_agents_model.views import CallView

from .cases import Case, Reacts, claim_of
from .samples import NOW, TURN, call, call_view, told

A: Final = ToolCallId("a")
CALL_TOOL: Final = CallTool(TURN, A)
CALL_SINGLE: Final = CallSingleAttemptTool(TURN, A)
LOST_RETRIED: Final = RecordToolFailure(TURN, A)
LOST_SINGLE: Final = RecordToolOutcomeUnknown(TURN, A)
RUNNING_STEPS: Final = (CALL_TOOL, CALL_SINGLE)
ENDED_BRANCH: Final = StepDecision(next=EndBranch())

READ: Final = call("a")
SINGLE: Final = call("a", ToolEffect.NON_IDEMPOTENT_WRITE)
FINAL: Final[tuple[FinalCall, ...]] = (
    Succeeded(READ, "found"),
    Rejected(READ, "no"),
    Failed(READ, "broken"),
    OutcomeUnknown(READ, "lost"),
    Cancelled(READ),
)


def finished(record: FinalCall) -> StepDecision:
    """The record is stored, its one result published, and its branch is over."""
    return StepDecision(
        commit=Commit(
            writes=(PutToolCall(record),),
            publishes=(ToolCallFinished(record),),
            events=told(
                ToolCallFinishedEvent(record.tool_call_id, record.tool_name, record.status)
            ),
        ),
        next=EndBranch(),
    )


UNFENCED: Final = AgentSessionOptions(fence_single_attempt_tools=False)
IDEMPOTENT: Final = call("a", ToolEffect.IDEMPOTENT_WRITE)
UNCLASSIFIED: Final = call("a", ToolEffect.UNCLASSIFIED)
OPEN: Final = evolve(SINGLE, fenced=False)
OPEN_UNCLASSIFIED: Final = evolve(UNCLASSIFIED, fenced=False)
UNSAID: Final = evolve(SINGLE, fenced=None)

RUNS = tuple(
    Reacts(
        f"run_tool__{claim}",
        step,
        call_view(CallView, Runnable(requested), options=options),
        Entered(),
        ExecuteTool(Runnable(requested), fenced=fenced),
    )
    for claim, step, requested, options, fenced in (
        ("runs_a_read", CALL_TOOL, READ, AgentSessionOptions(), False),
        ("runs_an_idempotent_write", CALL_TOOL, IDEMPOTENT, AgentSessionOptions(), False),
        ("fences_a_write", CALL_SINGLE, SINGLE, AgentSessionOptions(), True),
        ("fences_an_unclassified_call", CALL_SINGLE, UNCLASSIFIED, AgentSessionOptions(), True),
        (
            "fences_what_it_is_said_of_whatever_this_worker_does",
            CALL_SINGLE,
            SINGLE,
            UNFENCED,
            True,
        ),
        (
            "fences_nothing_else_whatever_this_worker_does",
            CALL_SINGLE,
            OPEN,
            AgentSessionOptions(),
            False,
        ),
        (
            "fences_a_call_of_an_earlier_release_as_this_worker_does",
            CALL_SINGLE,
            UNSAID,
            AgentSessionOptions(),
            True,
        ),
        (
            "fences_no_call_of_an_earlier_release_if_this_worker_does_not",
            CALL_SINGLE,
            UNSAID,
            UNFENCED,
            False,
        ),
        (
            "fences_no_read_of_an_earlier_release",
            CALL_TOOL,
            evolve(READ, fenced=None),
            AgentSessionOptions(),
            False,
        ),
    )
)
LEFT_ALONE = tuple(
    Reacts(
        f"run_tool__neither_runs_nor_publishes_what_{record.status}_in_{type(step).__name__}",
        step,
        call_view(CallView, record),
        Entered(),
        ENDED_BRANCH,
    )
    for step in RUNNING_STEPS
    for record in FINAL
)

FOUR_BYTES: Final = AgentSessionOptions(max_tool_output_bytes=4)


def cut(kept: str, kept_bytes: int, bytes_in_full: int) -> str:
    return (
        f"{kept}\n[The result of tool_a was cut: {kept_bytes} of {bytes_in_full} bytes are kept.]"
    )


OUTPUTS = tuple(
    Reacts(
        f"record_output__{claim}_in_{type(step).__name__}",
        step,
        call_view(CallView, Runnable(READ), options=FOUR_BYTES),
        ToolReturned(output),
        finished(Succeeded(READ, stored, output_truncated=truncated)),
    )
    for step in RUNNING_STEPS
    for claim, output, stored, truncated in (
        ("keeps_a_result", "ok", "ok", False),
        ("keeps_an_empty_result", "", "", False),
        ("keeps_a_result_of_just_the_limit", "\U0001f600", "\U0001f600", False),
        ("cuts_a_longer_one_with_a_marker", "12345", cut("1234", 4, 5), True),
        ("cuts_between_characters", "12\u20ac4", cut("12", 2, 6), True),
        ("cleans_before_it_measures", "1\x00", "1\ufffd", False),
        ("cuts_what_grew_by_cleaning", "12\ud800", cut("12", 2, 5), True),
    )
)
NOTHING_KEPT = Reacts(
    "record_output__keeps_nothing_when_the_first_character_is_too_long",
    CALL_TOOL,
    call_view(
        CallView, Runnable(READ), options=AgentSessionOptions(max_tool_output_bytes=3)
    ),
    ToolReturned("\U0001f600"),
    finished(Succeeded(READ, cut("", 0, 4), output_truncated=True)),
)  # fmt: skip

LEFT_OUT: Final = "\n[What tool_a returned beside this text was left out: {}.]"
CONTENTS = tuple(
    Reacts(
        f"record_output__{claim}",
        step,
        call_view(
            CallView,
            Runnable(READ),
            options=AgentSessionOptions(max_tool_output_bytes=4, max_tool_content_bytes=6),
        ),
        ToolReturned(output, content, content_tokens=7),
        finished(Succeeded(READ, stored, truncated, kept, None if kept is None else 7)),
    )
    for claim, step, output, content, stored, truncated, kept in (
        ("keeps_content_as_it_is", CALL_TOOL, "ok", "<\x00>", "ok", False, "<\x00>"),
        ("keeps_the_content_of_a_write", CALL_SINGLE, "ok", "<i>", "ok", False, "<i>"),
        ("keeps_empty_content", CALL_TOOL, "ok", "", "ok", False, ""),
        ("keeps_content_of_just_the_limit", CALL_TOOL, "ok", "\u00e9" * 3, "ok", False, "\u00e9" * 3),
        ("keeps_content_beside_text_that_is_cut", CALL_TOOL, "12345", "<i>", cut("1234", 4, 5), True, "<i>"),
        ("leaves_out_content_over_the_limit", CALL_TOOL, "ok", "\u00e9" * 3 + "!",
         "ok" + LEFT_OUT.format("7 bytes; at most 6 are kept"), True, None),
        ("leaves_out_content_that_cannot_be_stored", CALL_TOOL, "ok", "\ud800",
         "ok" + LEFT_OUT.format("it is no text that UTF-8 can hold"), True, None),
        ("leaves_out_content_beside_text_that_is_cut", CALL_TOOL, "12345", "\ud800",
         cut("1234", 4, 5) + LEFT_OUT.format("it is no text that UTF-8 can hold"), True, None),
    )
)  # fmt: skip

LONG_ERROR: Final = "x" * 8193
ERRORS = tuple(
    Reacts(
        f"record_error__{claim}_in_{type(step).__name__}",
        step,
        call_view(CallView, Runnable(READ)),
        ToolRaised(message),
        finished(Failed(READ, stored)),
    )
    for step in RUNNING_STEPS
    for claim, message, stored in (
        ("tells_the_model", "no such order", "no such order"),
        ("cleans_the_message", "\x00\udc00", "\ufffd\ufffd"),
        ("shortens_a_long_message", LONG_ERROR, LONG_ERROR[:8192] + "... [8193 bytes in full]"),
    )
)

SAID_THAT_IT_FAILED = tuple(
    Reacts(
        f"record_error__believes_{claim}_that_says_it_failed",
        step,
        call_view(CallView, Runnable(requested)),
        ToolRaised("no such order"),
        finished(Failed(requested, "no such order")),
    )
    for claim, step, requested in (
        ("an_idempotent_write", CALL_TOOL, IDEMPOTENT),
        ("a_write", CALL_SINGLE, SINGLE),
    )
)

LEFT_OPEN = tuple(
    Reacts(
        f"record_error__{claim}_that_left_its_work_to_others",
        step,
        call_view(CallView, Runnable(requested)),
        ToolRaised("whose result never comes", may_have_happened=True),
        finished(ended(requested, "whose result never comes")),
    )
    for claim, step, requested, ended in (
        ("fails_a_read", CALL_TOOL, READ, Failed),
        ("does_not_know_of_an_idempotent_write", CALL_TOOL, IDEMPOTENT, OutcomeUnknown),
        ("does_not_know_of_a_write", CALL_SINGLE, SINGLE, OutcomeUnknown),
    )
)

NO_ERROR: Final = "the Step was given up without an error"
NEVER_STARTED: Final = "the call never started: lost"
GIVEN_UP = tuple(
    Reacts(
        f"give_up__{claim}",
        step,
        call_view(CallView, Runnable(requested), options=options, claimant=claimant),
        AttemptsExhausted("lost", "TimeoutError"),
        finished(ended(requested, error)),
    )
    for claim, step, requested, options, claimant, ended, error in (
        ("fails_a_read", LOST_RETRIED, READ, AgentSessionOptions(), None, Failed, "lost"),
        ("does_not_know_of_an_idempotent_write", LOST_RETRIED, IDEMPOTENT, AgentSessionOptions(), None,
         OutcomeUnknown, "lost"),
        ("does_not_know_of_a_claimed_write", LOST_SINGLE, SINGLE, AgentSessionOptions(), "w-1",
         OutcomeUnknown, "lost"),
        ("does_not_know_of_a_claimed_unclassified_call", LOST_SINGLE, UNCLASSIFIED, AgentSessionOptions(), "w-1",
         OutcomeUnknown, "lost"),
        ("fails_a_write_that_nobody_claimed", LOST_SINGLE, SINGLE, AgentSessionOptions(), None,
         Failed, NEVER_STARTED),
        ("fails_an_unclassified_call_that_nobody_claimed", LOST_SINGLE, UNCLASSIFIED, AgentSessionOptions(), None,
         Failed, NEVER_STARTED),
        ("fails_a_write_that_nobody_claimed_whatever_this_worker_fences", LOST_SINGLE, SINGLE, UNFENCED, None,
         Failed, NEVER_STARTED),
        ("does_not_know_of_a_write_without_a_fence", LOST_SINGLE, OPEN, UNFENCED, None,
         OutcomeUnknown, "lost"),
        ("does_not_know_of_an_unclassified_call_without_a_fence", LOST_SINGLE, OPEN_UNCLASSIFIED, UNFENCED, None,
         OutcomeUnknown, "lost"),
        ("does_not_know_of_a_write_that_ran_before_this_worker_fenced", LOST_SINGLE, OPEN, AgentSessionOptions(), None,
         OutcomeUnknown, "lost"),
        ("does_not_know_of_a_write_of_an_earlier_release", LOST_SINGLE, UNSAID, AgentSessionOptions(), None,
         OutcomeUnknown, "lost"),
    )
)  # fmt: skip
GIVEN_UP_WITH_FEW_WORDS = tuple(
    Reacts(
        f"give_up__{claim}",
        LOST_RETRIED,
        call_view(CallView, Runnable(READ)),
        lost,
        finished(Failed(READ, error)),
    )
    for claim, lost, error in (
        ("names_an_error_without_words", AttemptsExhausted("", "TimeoutError"), "TimeoutError"),
        ("says_that_it_knows_no_error", AttemptsExhausted(""), "the Step was given up without an error"),
        ("cleans_the_error", AttemptsExhausted("\x00"), "\ufffd"),
        ("shortens_the_error", AttemptsExhausted(LONG_ERROR), LONG_ERROR[:8192] + "... [8193 bytes in full]"),
    )
)  # fmt: skip
GIVEN_UP_TOO_LATE = tuple(
    Reacts(
        f"give_up__publishes_nothing_for_what_{record.status}_in_{type(step).__name__}",
        step,
        call_view(CallView, record),
        AttemptsExhausted("lost"),
        ENDED_BRANCH,
    )
    for step in (LOST_RETRIED, LOST_SINGLE)
    for record in FINAL
)

CASES: tuple[Case, ...] = (
    *RUNS,
    *LEFT_ALONE,
    *OUTPUTS,
    NOTHING_KEPT,
    *CONTENTS,
    *ERRORS,
    *SAID_THAT_IT_FAILED,
    *LEFT_OPEN,
    *GIVEN_UP,
    *GIVEN_UP_WITH_FEW_WORDS,
    *GIVEN_UP_TOO_LATE,
)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_tools(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.parametrize("step", RUNNING_STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize(
    "on", [ToolReturned("found"), ToolRaised("broken")], ids=["output", "error"]
)
@pytest.mark.parametrize(
    "record", [AwaitingApproval(READ), *FINAL], ids=lambda record: record.status
)
def test_record__refuses_the_result_of_what_may_not_have_run(
    step: CallTool | CallSingleAttemptTool, on: Occurrence, record: AgentToolCall
) -> None:
    with pytest.raises(StateCorrupt, match=f"^tool call a ran while it was {record.status}$"):
        react(step, call_view(CallView, record), on, NOW)


@pytest.mark.parametrize(
    "step", [*RUNNING_STEPS, LOST_RETRIED, LOST_SINGLE], ids=lambda step: type(step).__name__
)
def test_record__refuses_what_happened_to_a_call_without_a_record(step: Step) -> None:
    happened: tuple[Occurrence, ...] = (ToolReturned("found"), ToolRaised("broken"))
    if isinstance(step, RecordToolFailure | RecordToolOutcomeUnknown):
        happened = (AttemptsExhausted("lost"),)

    for on in happened:
        with pytest.raises(
            StateCorrupt, match=r"^the running turn has no record of its tool call a$"
        ):
            react(step, call_view(CallView, None), on, NOW)


@pytest.mark.parametrize("step", RUNNING_STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize(
    ("record", "message"),
    [
        (AwaitingApproval(READ), "^a of turn-2 would run before its approval$"),
        (None, "the running turn has no record of its tool call a"),
    ],
    ids=["awaiting approval", "without a record"],
)
def test_run_tool__refuses_what_may_not_run(
    step: CallTool | CallSingleAttemptTool, record: AgentToolCall | None, message: str
) -> None:
    with pytest.raises(StateCorrupt, match=message):
        react(step, call_view(CallView, record), Entered(), NOW)
