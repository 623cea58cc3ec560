"""How a turn begins, calls the model, goes on after its tools and completes."""

from __future__ import annotations

import pytest

from dex_agents_model.calls import (
    AwaitingApproval,
    Runnable,
)
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    Commit,
    GoTo,
    SetInterrupts,
    SetState,
    SetUsage,
    StepDecision,
    TakeSteering,
    WaitDecision,
)
from dex_agents_model.effects import (
    CallModel,
    Entered,
    Occurrence,
    ToolResultsArrived,
    TurnCompleted,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.errors import ContractBroken, StateCorrupt
from dex_agents_model.events import (
    SteeringTaken,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnEvent,
    TurnFailedEvent,
    TurnStarted,
    UsageRecorded,
)
from dex_agents_model.ids import TurnId
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import (
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    FrameworkMessage,
    MessageRole,
    RunningModel,
    RunningTools,
    SteeringMessage,
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.steps import (
    AwaitUserMessage,
    ResumeTurn,
    RunModel,
    StartAgentSession,
    Step,
)
from dex_agents_model.table import react
from dex_agents_model.views import PendingSteering, ResumeView, SessionView, StepView, TurnView
from dex_agents_model.waits import ForToolResults, ForUserMessage

from .cases import Case, Reacts, Waits, claim_of
from .samples import (
    CALLING,
    IDLE,
    MESSAGES,
    NEXT_TURN,
    NOW,
    SAID,
    SUM,
    TURN,
    USED,
    USING_TOOLS,
    call,
    ended_calls,
    over_a_limit,
    told,
    view,
)

RUN = RunModel(TURN)
ENDED = ended_calls()

EMPTY = StepDecision(
    commit=Commit(
        writes=(SetState(WaitingForUserMessage()), SetUsage(AgentUsage()), SetInterrupts(()))
    ),
    next=GoTo((AwaitUserMessage(),)),
)


def first_turn(text: str) -> StepDecision:
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(RunningModel(turn_count=1, message_count=1, model_calls=0)),
                SetUsage(AgentUsage()),
                SetInterrupts(()),
                AppendUserMessage(1, TurnId("turn-1"), AgentUserMessage(text)),
            ),
            events=(TurnEvent(TurnId("turn-1"), TurnStarted(1)),),
        ),
        next=GoTo((RunModel(TurnId("turn-1")),)),
    )


def next_turn(text: str, message_id: str = "message-9") -> StepDecision:
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(RunningModel(turn_count=3, message_count=4, model_calls=0)),
                AppendUserMessage(4, NEXT_TURN, AgentUserMessage(text, message_id)),
            ),
            events=(TurnEvent(NEXT_TURN, TurnStarted(4, message_id)),),
        ),
        next=GoTo((RunModel(NEXT_TURN),)),
    )


SHORT = AgentSessionOptions(max_user_message_bytes=8)
STARTS = tuple(
    Reacts(
        f"start_session__{claim}",
        StartAgentSession(None if text is None else AgentUserMessage(text)),
        view(SessionView, state=None, options=SHORT),
        Entered(),
        then,
    )
    for claim, text, then in (
        ("waits_without_a_first_message", None, EMPTY),
        ("starts_no_turn_with_an_empty_first_message", "", EMPTY),
        ("starts_no_turn_with_a_blank_first_message", " \n\t\u00a0", EMPTY),
        ("begins_turn_1_with_its_first_message", " hello ", first_turn(" hello ")),
        ("cleans_its_first_message", "a\x00b\ud800", first_turn("a\ufffdb\ufffd")),
        ("takes_a_first_message_of_just_the_limit", "\u00e9" * 4, first_turn("\u00e9" * 4)),
        ("starts_no_turn_with_a_first_message_over_the_limit", "\u00e9" * 4 + "!", EMPTY),
    )
)

BEGINNINGS = tuple(
    Reacts(
        f"begin_turn__{claim}",
        AwaitUserMessage(),
        view(SessionView, state=state),
        UserSpoke(AgentUserMessage(text, "message-9")),
        next_turn(stored),
    )
    for claim, state, text, stored in (
        ("takes_the_next_number_and_sequence", IDLE, "hello", "hello"),
        ("forgets_the_error_of_the_turn_before", WaitingForUserMessage(2, 3, TurnFailed("x")), "again", "again"),
        ("cleans_the_message", IDLE, "\udfff\U0001f600\x00", "\ufffd\U0001f600\ufffd"),
    )
)  # fmt: skip

STEERED_BEGINNINGS = tuple(
    Reacts(
        f"begin_turn_with_steering__{claim}",
        AwaitUserMessage(),
        view(SessionView, state=IDLE),
        UserSteered(SteeringMessage(AgentUserMessage(text, "message-9"), rejects)),
        next_turn(stored),
    )
    for claim, text, rejects, stored in (
        ("begins_a_turn_as_a_queued_message_does", "hello", True, "hello"),
        ("cleans_the_message", "\x00", False, "\ufffd"),
    )
)

ENDS = tuple(
    Waits(
        f"wait_for_user_message__{claim}",
        AwaitUserMessage(),
        view(SessionView, state=WaitingForUserMessage(2, 3, last_turn)),
        WaitDecision(commit=Commit(events=events), wait=ForUserMessage()),
    )
    for claim, last_turn, events in (
        ("tells_nothing_before_the_first_turn", None, ()),
        ("tells_that_the_turn_completed", TurnSucceeded(5), told(TurnCompletedEvent(5))),
        ("tells_that_the_turn_failed", TurnFailed("lost"), told(TurnFailedEvent("lost"))),
        ("tells_that_the_turn_was_cancelled", TurnCancelled(), told(TurnCancelledEvent())),
    )
)


LIMITED = AgentSessionOptions(max_model_calls_per_turn=2)
MODEL_CALLS = (
    Reacts(
        "call_the_model__gives_all_messages_and_no_run_state_at_first",
        RUN,
        view(TurnView),
        Entered(),
        CallModel(TURN, MESSAGES, None, ()),
    ),
    Reacts(
        "call_the_model__goes_on_with_run_state_and_results",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 1), run_state="state", tool_calls=ENDED),
        Entered(),
        CallModel(TURN, MESSAGES, "state", ENDED),
    ),
    Reacts(
        "call_the_model__gives_what_the_user_said_since_the_model_call_before",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 2, 3), run_state="state", steering=SAID),
        Entered(),
        CallModel(TURN, MESSAGES, "state", (), tuple(said.message for said in SAID[1:])),
    ),
    Reacts(
        "call_the_model__makes_the_last_call_that_is_allowed",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 1), options=LIMITED),
        Entered(),
        CallModel(TURN, MESSAGES, None, ()),
    ),
    Reacts(
        "call_the_model__fails_a_turn_that_has_used_up_its_calls",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 2), options=LIMITED, tool_calls=ENDED[1:]),
        Entered(),
        over_a_limit(
            "the turn made 2 model calls without a final answer; max_model_calls_per_turn is 2"
        ),
    ),
)


def completed(*messages: AgentMessage) -> StepDecision:
    return StepDecision(
        commit=Commit(
            writes=(
                SetState(WaitingForUserMessage(2, 3 + len(messages), TurnSucceeded(len(messages)))),
                SetUsage(SUM),
                AppendMessages(messages),
                ClearTurn(),
            ),
            events=told(UsageRecorded(USED, SUM)),
        ),
        next=GoTo((AwaitUserMessage(),)),
    )


COMPLETIONS = tuple(
    Reacts(
        f"complete_turn__{claim}",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 1), run_state="state", tool_calls=ENDED),
        TurnCompleted(new_messages, USED),
        then,
    )
    for claim, new_messages, then in (
        (
            "stores_the_whole_turn_in_order_and_clears_it",
            (
                FrameworkMessage(MessageRole.ASSISTANT, "<i>", None, "a", "tool_a"),
                FrameworkMessage(MessageRole.TOOL, "<j>", "found", "a", "tool_a"),
                FrameworkMessage(MessageRole.ASSISTANT, "<k>", "It is there."),
            ),
            completed(
                AgentMessage(4, TURN, MessageRole.ASSISTANT, "<i>", None, "a", "tool_a"),
                AgentMessage(5, TURN, MessageRole.TOOL, "<j>", "found", "a", "tool_a"),
                AgentMessage(6, TURN, MessageRole.ASSISTANT, "<k>", "It is there."),
            ),
        ),
        ("accepts_an_answer_without_items", (), completed()),
        (
            "cleans_the_text_and_leaves_the_item_as_it_is",
            (FrameworkMessage(MessageRole.ASSISTANT, "<\x00>", "\x00\ud800"),),
            completed(AgentMessage(4, TURN, MessageRole.ASSISTANT, "<\x00>", "\ufffd\ufffd")),
        ),
        (
            "stores_an_empty_text_as_such",
            (FrameworkMessage(MessageRole.ASSISTANT, "<>", ""),),
            completed(AgentMessage(4, TURN, MessageRole.ASSISTANT, "<>", "")),
        ),
    )
)

PENDING = tuple(
    PendingSteering(
        f"channel-{text}", SteeringMessage(AgentUserMessage(text, f"id of {text}"), rejects)
    )
    for text, rejects in (("now", True), ("and this", False))
)
RESUMPTIONS = (
    Waits(
        "wait_for_results__waits_for_as_many_as_it_was_told",
        ResumeTurn(TURN, 3),
        view(ResumeView, state=USING_TOOLS),
        WaitDecision(wait=ForToolResults(3)),
    ),
    Reacts(
        "resume_turn__calls_the_model_when_every_record_is_final",
        ResumeTurn(TURN, 2),
        view(ResumeView, state=RunningTools(2, 3, 4), tool_calls=ENDED),
        ToolResultsArrived(),
        StepDecision(
            commit=Commit(writes=(SetState(RunningModel(2, 3, 4)),)), next=GoTo((RUN,))
        ),
    ),
    Reacts(
        "resume_turn__takes_what_the_user_said_meanwhile_in_order",
        ResumeTurn(TURN, 2),
        view(
            ResumeView,
            state=RunningTools(2, 3, 2, 1),
            tool_calls=ENDED,
            pending_steering=PENDING,
        ),
        ToolResultsArrived(),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(RunningModel(2, 3, 2, 3)),
                    TakeSteering(("channel-now", "channel-and this"), 1, SAID[1:]),
                ),
                events=told(SteeringTaken(2)),
            ),
            next=GoTo((RUN,)),
        ),
    ),
    Reacts(
        "resume_turn__waits_again_for_those_that_are_open_and_takes_no_steering",
        ResumeTurn(TURN, 4),
        view(
            ResumeView,
            state=USING_TOOLS,
            tool_calls=(*ENDED, Runnable(call("c", order=2)), AwaitingApproval(call("d", order=3))),
            pending_steering=PENDING,
        ),
        ToolResultsArrived(),
        StepDecision(next=GoTo((ResumeTurn(TURN, 2),))),
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = (
    *STARTS,
    *BEGINNINGS,
    *STEERED_BEGINNINGS,
    *ENDS,
    *MODEL_CALLS,
    *COMPLETIONS,
    *RESUMPTIONS,
)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_turn(case: Case) -> None:
    assert case.result() == case.then


def test_complete_turn__cleans_names() -> None:
    on = TurnCompleted((FrameworkMessage(MessageRole.TOOL, "<>", "", "\x00", "\ud800"),))
    stored = AgentMessage(4, TURN, MessageRole.TOOL, "<>", "", "\ufffd", "\ufffd")

    decision = react(RUN, view(TurnView), on, NOW)

    assert isinstance(decision, StepDecision)
    assert AppendMessages((stored,)) in decision.commit.writes


def test_complete_turn__refuses_an_item_that_cannot_be_stored_as_it_is() -> None:
    on = TurnCompleted((FrameworkMessage(MessageRole.TOOL, "\udfff"),))

    with pytest.raises(
        ContractBroken, match=r"^a message of the role tool holds text that UTF-8 cannot hold$"
    ):
        react(RUN, view(TurnView), on, NOW)


def test_complete_turn__keeps_an_answer_that_is_data_with_its_last_message() -> None:
    said = (
        FrameworkMessage(MessageRole.ASSISTANT, "<k>"),
        FrameworkMessage(MessageRole.TOOL, "<l>"),
    )

    decision = react(RUN, view(TurnView), TurnCompleted(said, output='{"days": 3}'), NOW)

    assert isinstance(decision, StepDecision)
    stored = (
        AgentMessage(4, TURN, MessageRole.ASSISTANT, "<k>"),
        AgentMessage(5, TURN, MessageRole.TOOL, "<l>", output='{"days": 3}'),
    )
    assert AppendMessages(stored) in decision.commit.writes


@pytest.mark.parametrize(
    ("said", "output", "message"),
    [
        ((), "{}", "with an output and without a message"),
        (("<>",), "", "the turn's output is no JSON: Expecting value"),
        (("<>",), "{'days': 3}", "the turn's output is no JSON"),
        (("<>",), '{"days": NaN}', "the turn's output is no JSON: NaN is no number of JSON"),
        (("<>",), "[" * 100_000, "the turn's output is no JSON: the JSON text is nested too deep"),
        (("<>",), '"\ud800"', "the turn's output holds text that UTF-8 cannot hold"),
    ],
    ids=["no message", "nothing", "no JSON", "no number", "too deep", "no text"],
)
def test_complete_turn__refuses_an_output_that_it_cannot_keep(
    said: tuple[str, ...], output: str, message: str
) -> None:
    messages = [FrameworkMessage(MessageRole.ASSISTANT, item) for item in said]

    with pytest.raises(ContractBroken, match=message):
        react(RUN, view(TurnView), TurnCompleted(messages, output=output), NOW)


@pytest.mark.parametrize(
    ("step", "given", "on", "message"),
    [
        (
            AwaitUserMessage(),
            view(SessionView, state=CALLING),
            UserSpoke(AgentUserMessage("hello")),
            "a session that waits for its user has the state RunningModel",
        ),
        (
            AwaitUserMessage(),
            view(SessionView, state=None),
            UserSpoke(AgentUserMessage("hello")),
            "a session that waits for its user has the state None",
        ),
        (
            RUN,
            view(TurnView, state=USING_TOOLS),
            Entered(),
            "a session that calls its model has the state RunningTools",
        ),
        (
            ResumeTurn(TURN, 1),
            view(ResumeView, state=CALLING),
            ToolResultsArrived(),
            "turn-2 resumes while the session's state is RunningModel",
        ),
    ],
    ids=["a message in a turn", "a message before the start", "a model call of tools", "resuming"],
)
def test_turn__refuses_a_state_in_which_the_step_cannot_be(
    step: Step, given: StepView, on: Occurrence, message: str
) -> None:
    with pytest.raises(StateCorrupt, match=message):
        react(step, given, on, NOW)
