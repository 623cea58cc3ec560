"""How an ended tool call is told to a model."""

from __future__ import annotations

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
)
from dex_agents_model.notes import (
    OUTCOME_UNKNOWN_TOOL_RESULT,
    build_turn_failure_note,
    describe_tool_call_outcome,
    shorten_result,
)

from .samples import call


@pytest.mark.parametrize(
    ("record", "described"),
    [
        (Succeeded(call(), "found"), "found"),
        (Succeeded(call(), ""), ""),
        (
            Succeeded(evolve(call(arguments='{"n": 2}'), arguments_edited=True), "found"),
            '[An approver changed the arguments to {"n": 2}]\nfound',
        ),
        (Rejected(call(), "not now"), "not now"),
        (Cancelled(call()), "The tool call was not run: the turn was cancelled."),
        (Failed(call(), "no such order"), "The tool call failed: no such order"),
        (OutcomeUnknown(call(), "worker lost"), OUTCOME_UNKNOWN_TOOL_RESULT),
    ],
)
def test_describe_tool_call_outcome__speaks_to_the_model(record: FinalCall, described: str) -> None:
    assert describe_tool_call_outcome(record) == described


def test_shorten_result__keeps_the_first_2_kibibytes() -> None:
    assert [shorten_result("x" * size) for size in (2048, 2049)] == [
        "x" * 2048,
        "x" * 2048 + "... [2049 bytes in full]",
    ]


def test_build_turn_failure_note__leaves_open_calls_out() -> None:
    records = (
        Runnable(call("a")),
        AwaitingApproval(call("b", order=1)),
        Succeeded(call("c", order=2), "found"),
    )

    assert build_turn_failure_note(records) == (
        "[Dex] The previous turn failed after these tool calls ran:\n"
        "- tool_c {} -> succeeded: found\n"
        "Do not repeat these tool calls unless the user asks again."
    )


@pytest.mark.parametrize(
    "records",
    [(), (Rejected(call(), "no"),), (Cancelled(call()),), (Runnable(call()),)],
    ids=["no calls", "only rejected calls", "only cancelled calls", "only open calls"],
)
def test_build_turn_failure_note__is_absent_when_no_tool_ended(
    records: tuple[AgentToolCall, ...],
) -> None:
    assert build_turn_failure_note(records) is None


def test_build_turn_failure_note__says_how_the_turn_ended() -> None:
    records = (Cancelled(call("a")), OutcomeUnknown(call("b", order=1), "lost"))

    assert build_turn_failure_note(records, ended="was cancelled") == (
        "[Dex] The previous turn was cancelled after these tool calls ran:\n"
        "- tool_a {} -> cancelled: The tool call was not run: the turn was cancelled.\n"
        f"- tool_b {{}} -> outcome_unknown: {OUTCOME_UNKNOWN_TOOL_RESULT}\n"
        "Do not repeat these tool calls unless the user asks again."
    )


def test_build_turn_failure_note__shortens_long_arguments_and_results() -> None:
    long = "x" * 4097
    shortened = "x" * 4096 + "... [4097 bytes in full]"

    assert build_turn_failure_note((Succeeded(call(arguments=long), long),)) == (
        "[Dex] The previous turn failed after these tool calls ran:\n"
        f"- tool_a {shortened} -> succeeded: {shortened}\n"
        "Do not repeat these tool calls unless the user asks again."
    )
