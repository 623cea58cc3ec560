"""The little that a record says by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import astuple

from dex_agents_model.calls import Runnable, Succeeded, ToolCallCompleted
from dex_agents_model.decision import ToolCallFinished
from dex_agents_model.effects import ExecuteTool
from dex_agents_model.events import AgentEvent, AgentEventType, StepMethod, TextDelta
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.records import (
    AgentInterrupt,
    AgentMessage,
    AgentState,
    AgentStatus,
    AgentUsage,
    AgentUserMessage,
    MessageRole,
    RunningModel,
    RunningTools,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.requests import ResolveInterrupt, WithdrawUserMessage
from dex_agents_model.status import shown_status

from .samples import TURN, call

ASKED = InterruptId("turn-2.a")
WAITING = AgentStatus.WAITING_FOR_USER_MESSAGE


def test_agent_usage__adds_each_of_its_counts() -> None:
    total = AgentUsage(1, 2, 3, 4, 5, 6) + AgentUsage(10, 20, 30, 40, 50, 60)

    assert (astuple(total), astuple(AgentUsage())) == ((11, 22, 33, 44, 55, 66), (0,) * 6)


@pytest.mark.parametrize(
    ("state", "status", "turn", "error"),
    [
        (WaitingForUserMessage(), WAITING, None, None),
        (WaitingForUserMessage(2, 3, TurnSucceeded(1)), WAITING, None, None),
        (WaitingForUserMessage(2, 3, TurnFailed("lost")), WAITING, None, "lost"),
        (WaitingForUserMessage(2, 3, TurnCancelled()), WAITING, None, None),
        (RunningModel(2, 3, 0), AgentStatus.RUNNING_MODEL, TurnId("turn-2"), None),
        (RunningTools(2, 3, 1), AgentStatus.RUNNING_TOOLS, TurnId("turn-2"), None),
    ],
)
def test_agent_state__answers_the_same_questions_in_each_status(
    state: AgentState, status: AgentStatus, turn: TurnId | None, error: str | None
) -> None:
    assert (state.status, state.active_turn_id, state.last_turn_error) == (status, turn, error)


def test_user_message__is_cleaned_wherever_it_comes_from() -> None:
    assert AgentUserMessage("a\x00b\ud800\U0001f600").text == "a\ufffdb\ufffd\U0001f600"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda text: AgentUserMessage("hi", text), "message_id"),
        (WithdrawUserMessage, "message_id"),
        (lambda text: WithdrawUserMessage("m-1", text), "request_id"),
        (lambda text: ResolveInterrupt(ASKED, True, arguments_digest=text), "arguments_digest"),
        (lambda text: ResolveInterrupt(ASKED, True, edited_arguments=text), "edited_arguments"),
        (lambda text: ResolveInterrupt(ASKED, True, request_id=text), "request_id"),
    ],
)
def test_requests__refuse_what_may_not_be_changed_and_cannot_be_sent(
    make: Callable[[str], object], name: str
) -> None:
    make("a\x00")
    with pytest.raises(ValueError, match=f"^{name} .* holds a character that UTF-8 cannot hold$"):
        make("a\ud800")


def test_answer__cleans_what_is_said_to_people() -> None:
    said = ResolveInterrupt(
        ASKED, False, rejection_message="a\x00", resolved_by="b\ud800", reason="c\x00"
    )

    assert (said.rejection_message, said.resolved_by, said.reason) == (
        *("a\ufffd", "b\ufffd", "c\ufffd"),
    )


def test_step_records__name_what_they_are_about() -> None:
    record = Succeeded(call("a"), "found")
    payload = TextDelta("hi")
    event = AgentEvent(TURN, "step-1", StepMethod.EXECUTE, 1, 0, payload)

    assert ToolCallFinished(record).message == ToolCallCompleted(TURN, record.tool_call_id)
    assert ExecuteTool(Runnable(call("a"))).turn == TURN
    assert event.type is AgentEventType.TEXT_DELTA


@pytest.mark.parametrize(
    ("state", "is_asked", "shown"),
    [
        (WaitingForUserMessage(), False, WAITING),
        (RunningModel(2, 3, 0), True, AgentStatus.RUNNING_MODEL),
        (RunningTools(2, 3, 1), False, AgentStatus.RUNNING_TOOLS),
        (RunningTools(2, 3, 1), True, AgentStatus.WAITING_FOR_APPROVAL),
    ],
)
def test_shown_status__tells_tools_that_wait_for_a_person_from_others(
    state: AgentState, is_asked: bool, shown: AgentStatus
) -> None:
    asked = AgentInterrupt(
        InterruptId("turn-2.a"), TURN, ToolCallId("a"), "tool_a", "{}", "sha256:0"
    )

    assert shown_status(state, (asked,) if is_asked else ()) is shown


def test_running_tools__tells_the_latest_calls_from_earlier_ones() -> None:
    calls = tuple(map(ToolCallId, "abc"))
    state = RunningTools(2, 3, 1, tool_call_ids=calls, earlier_tool_calls=1)

    assert state.latest_tool_call_ids == calls[1:]


def test_agent_message__counts_from_1() -> None:
    with pytest.raises(ValueError, match="'sequence' must be >= 1: 0"):
        AgentMessage(0, TurnId("turn-1"), MessageRole.USER, "<>")
