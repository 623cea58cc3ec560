"""How a model response becomes Steps: one for each tool call, and one that waits for them all."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from attrs import evolve

from dex_agents_model.calls import (
    AwaitingApproval,
    Rejected,
    RequestedToolCall,
    Runnable,
    Succeeded,
    ToolEffect,
)
from dex_agents_model.decision import (
    Commit,
    GoTo,
    PutToolCall,
    SetInterrupts,
    SetRunState,
    SetState,
    SetUsage,
    StepDecision,
)
from dex_agents_model.effects import (
    DeferredToolCall,
    ToolCallsRequested,
)
from dex_agents_model.errors import ContractBroken
from dex_agents_model.events import (
    ToolCallDeferred,
    UsageRecorded,
)
from dex_agents_model.ids import InterruptId, ToolCallId
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy
from dex_agents_model.records import (
    AgentInterrupt,
    RunningModel,
    RunningTools,
)
from dex_agents_model.rules.fan_out import MAX_TURN_TOOL_CALL_ID_BYTES, MAX_TURN_TOOL_CALLS
from dex_agents_model.steps import (
    AwaitToolApproval,
    CallSingleAttemptTool,
    CallTool,
    ResumeTurn,
    RunModel,
)
from dex_agents_model.table import react
from dex_agents_model.text import digest
from dex_agents_model.views import TurnView

from .cases import Case, Reacts, claim_of
from .samples import (
    NOW,
    SAID,
    SUM,
    TURN,
    USED,
    call,
    ended_calls,
    over_a_limit,
    told,
    view,
)

RUN = RunModel(TURN)
ENDED = ended_calls()


def deferred(requested: RequestedToolCall) -> DeferredToolCall:
    """``requested`` as a runner reports it."""
    return DeferredToolCall(
        requested.tool_call_id,
        requested.tool_name,
        requested.arguments,
        ToolPolicy(requested.effect, requested.requires_approval),
    )


def requests(*calls: RequestedToolCall) -> ToolCallsRequested:
    return ToolCallsRequested("state", tuple(map(deferred, calls)), USED)


def using(ids: str) -> RunningTools:
    """The turn's state behind its first model call, which asked for these tools."""
    return RunningTools(2, 3, 1, tool_call_ids=tuple(map(ToolCallId, ids)))


def announced(requested: RequestedToolCall) -> ToolCallDeferred:
    return ToolCallDeferred(
        requested.tool_call_id, requested.tool_name, requested.effect, requested.requires_approval
    )


READ = call("a")
IDEMPOTENT = call("b", ToolEffect.IDEMPOTENT_WRITE, order=1)
SINGLE = call("c", ToolEffect.NON_IDEMPOTENT_WRITE, order=2)
ASKED = call("d", ToolEffect.READ, order=3, arguments='{"n": 1}', requires_approval=True)
QUESTION = AgentInterrupt(
    InterruptId("turn-2.d"), TURN, ToolCallId("d"), "tool_d", '{"n": 1}', digest('{"n": 1}')
)
UNFENCED = AgentSessionOptions(fence_single_attempt_tools=False)
FAN_OUTS = (
    Reacts(
        "fan_out_tool_calls__gives_each_call_the_step_of_its_effect_in_model_order",
        RUN,
        view(TurnView),
        requests(READ, IDEMPOTENT, SINGLE, ASKED),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(using("abcd")),
                    SetUsage(SUM),
                    SetRunState("state"),
                    PutToolCall(Runnable(READ)),
                    PutToolCall(Runnable(IDEMPOTENT)),
                    PutToolCall(Runnable(SINGLE)),
                    PutToolCall(AwaitingApproval(ASKED)),
                    SetInterrupts((QUESTION,)),
                ),
                events=told(
                    UsageRecorded(USED, SUM), *map(announced, (READ, IDEMPOTENT, SINGLE, ASKED))
                ),
            ),
            next=GoTo(
                (
                    CallTool(TURN, ToolCallId("a")),
                    CallTool(TURN, ToolCallId("b")),
                    CallSingleAttemptTool(TURN, ToolCallId("c")),
                    AwaitToolApproval(TURN, ToolCallId("d")),
                    ResumeTurn(TURN, 4),
                )
            ),
        ),
    ),
    *(
        Reacts(
            f"fan_out_tool_calls__{claim}",
            RUN,
            view(TurnView, options=options),
            requests(evolve(SINGLE, deferral_order=0)),
            StepDecision(
                commit=Commit(
                    writes=(
                        SetState(using("c")),
                        SetUsage(SUM),
                        SetRunState("state"),
                        PutToolCall(Runnable(evolve(SINGLE, deferral_order=0, fenced=fenced))),
                    ),
                    events=told(UsageRecorded(USED, SUM), announced(SINGLE)),
                ),
                next=GoTo((CallSingleAttemptTool(TURN, ToolCallId("c")), ResumeTurn(TURN, 1))),
            ),
        )
        for claim, options, fenced in (
            ("says_that_a_call_is_fenced", AgentSessionOptions(), True),
            ("says_that_nothing_fences_a_call", UNFENCED, False),
        )
    ),
    Reacts(
        "fan_out_tool_calls__counts_on_over_the_model_calls_of_a_turn",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 4), run_state="old", tool_calls=ENDED),
        requests(call("e")),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(
                        RunningTools(
                            *(2, 3, 5),
                            tool_call_ids=(*(r.tool_call_id for r in ENDED), ToolCallId("e")),
                            earlier_tool_calls=2,
                        )
                    ),
                    SetUsage(SUM),
                    SetRunState("state"),
                    PutToolCall(Runnable(call("e", order=2, model_call=5))),
                ),
                events=told(UsageRecorded(USED, SUM), announced(call("e"))),
            ),
            next=GoTo((CallTool(TURN, ToolCallId("e")), ResumeTurn(TURN, 1))),
        ),
    ),
    Reacts(
        "fan_out_tool_calls__keeps_count_of_the_steering_taken",
        RUN,
        view(TurnView, state=RunningModel(2, 3, 2, 3), run_state="old", steering=SAID),
        requests(call("a")),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(RunningTools(2, 3, 3, 3, tool_call_ids=(ToolCallId("a"),))),
                    SetUsage(SUM),
                    SetRunState("state"),
                    PutToolCall(Runnable(call("a", model_call=3))),
                ),
                events=told(UsageRecorded(USED, SUM), announced(call("a"))),
            ),
            next=GoTo((CallTool(TURN, ToolCallId("a")), ResumeTurn(TURN, 1))),
        ),
    ),
    Reacts(
        "fan_out_tool_calls__cleans_names_ids_and_arguments",
        RUN,
        view(TurnView),
        ToolCallsRequested(
            "state", (DeferredToolCall("\x00", "\ud800", '{"\x00":1}', ToolPolicy(ToolEffect.READ)),), USED
        ),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(using("\ufffd")),
                    SetUsage(SUM),
                    SetRunState("state"),
                    PutToolCall(
                        Runnable(evolve(call("\ufffd", arguments='{"\ufffd":1}'), tool_name="\ufffd"))
                    ),
                ),
                events=told(
                    UsageRecorded(USED, SUM),
                    ToolCallDeferred(ToolCallId("\ufffd"), "\ufffd", ToolEffect.READ, False),
                ),
            ),
            next=GoTo((CallTool(TURN, ToolCallId("\ufffd")), ResumeTurn(TURN, 1))),
        ),
    ),
)  # fmt: skip

LONG_ARGUMENTS = '{"' + "\u00e9" * 511 + '":1}'
ASKED_AT_LENGTH = call(
    "d", ToolEffect.UNCLASSIFIED, arguments=LONG_ARGUMENTS, requires_approval=True
)
FAN_OUT_AT_LENGTH = Reacts(
    "fan_out_tool_calls__shows_long_arguments_shortened_with_the_digest_of_them_all",
    RUN,
    view(TurnView),
    requests(ASKED_AT_LENGTH),
    StepDecision(
        commit=Commit(
            writes=(
                SetState(using("d")),
                SetUsage(SUM),
                SetRunState("state"),
                PutToolCall(AwaitingApproval(ASKED_AT_LENGTH)),
                SetInterrupts(
                    (
                        evolve(
                            QUESTION,
                            arguments='{"' + "\u00e9" * 511 + "... [1028 bytes in full]",
                            arguments_digest=digest(LONG_ARGUMENTS),
                        ),
                    )
                ),
            ),
            events=told(UsageRecorded(USED, SUM), announced(ASKED_AT_LENGTH)),
        ),
        next=GoTo((AwaitToolApproval(TURN, ToolCallId("d")), ResumeTurn(TURN, 1))),
    ),
)

TIGHT = AgentSessionOptions(max_response_argument_bytes=8)
COUNTED = Commit(writes=(SetUsage(SUM),), events=told(UsageRecorded(USED, SUM)))
EIGHT_BYTES = '{"\u00e9":1}'
FAN_OUTS_WITHIN_BOUNDS = (
    Reacts(
        "fan_out_tool_calls__takes_arguments_up_to_the_limit",
        RUN,
        view(TurnView, options=TIGHT),
        requests(call("a", arguments=EIGHT_BYTES)),
        StepDecision(
            commit=Commit(
                writes=(
                    SetState(using("a")),
                    SetUsage(SUM),
                    SetRunState("state"),
                    PutToolCall(Runnable(call("a", arguments=EIGHT_BYTES))),
                ),
                events=told(UsageRecorded(USED, SUM), announced(READ)),
            ),
            next=GoTo((CallTool(TURN, ToolCallId("a")), ResumeTurn(TURN, 1))),
        ),
    ),
    Reacts(
        "fan_out_tool_calls__fails_a_turn_whose_arguments_are_over_the_limit_together",
        RUN,
        view(TurnView, options=TIGHT),
        requests(call("a", arguments='{"":1}'), call("b", order=1, arguments="{ }")),
        over_a_limit(
            "the model's 2 tool calls have 9 bytes of arguments; max_response_argument_bytes is 8",
            COUNTED,
        ),
    ),
    Reacts(
        "fan_out_tool_calls__fails_a_turn_with_more_questions_than_can_wait",
        RUN,
        view(TurnView),
        requests(*(call(f"c{n}", order=n, requires_approval=True) for n in range(101))),
        over_a_limit(
            "101 tool calls of one model response need approval; at most 100 can wait at a time",
            COUNTED,
        ),
    ),
    Reacts(
        "fan_out_tool_calls__fails_a_turn_that_asked_for_more_calls_than_its_state_can_name",
        RUN,
        view(TurnView, tool_calls=ENDED),
        requests(*(call(f"c{n}", order=n) for n in range(999))),
        over_a_limit(
            "the turn asked for 1001 tool calls, whose IDs have 3888 bytes; a turn may have 1000 and 49152",
            COUNTED,
        ),
    ),
    Reacts(
        "fan_out_tool_calls__fails_a_turn_whose_ids_are_over_the_limit_together",
        RUN,
        view(TurnView),
        requests(*(call(f"{n:251}", order=n) for n in range(196))),
        over_a_limit(
            "the turn asked for 196 tool calls, whose IDs have 49196 bytes; a turn may have 1000 and 49152",
            COUNTED,
        ),
    ),
)

CASES: tuple[Case, ...] = (*FAN_OUTS, FAN_OUT_AT_LENGTH, *FAN_OUTS_WITHIN_BOUNDS)


@pytest.mark.parametrize("case", CASES, ids=claim_of)
def test_fan_out(case: Case) -> None:
    assert case.result() == case.then


@pytest.mark.parametrize(
    "ids",
    [
        [f"c{n}" for n in range(MAX_TURN_TOOL_CALLS)],
        [f"{n:256}" for n in range(MAX_TURN_TOOL_CALL_ID_BYTES // 256)],
    ],
    ids=["calls", "bytes of their IDs"],
)
def test_fan_out_tool_calls__takes_as_many_as_a_state_can_name(ids: list[str]) -> None:
    named = (evolve(call(each, order=n), tool_name="tool") for n, each in enumerate(ids))

    decision = react(RUN, view(TurnView), requests(*named), NOW)

    assert isinstance(decision, StepDecision)
    assert isinstance(decision.next, GoTo)
    *tools, resume = decision.next.steps
    assert (resume, tools) == (
        ResumeTurn(TURN, expected_result_count=len(ids)),
        [CallTool(TURN, ToolCallId(each)) for each in ids],
    )


LONG_NAME = "x" * 257
NO_ARGUMENTS = ("", '{"a": 1', '{"a": 1}x', "{'a': 1}", "[7]", "null", '{"a": NaN}', '{"a": 1e999}')


@pytest.mark.parametrize(
    ("asked", "earlier", "message"),
    [
        (
            evolve(requests(READ), framework_run_state=""),
            (),
            "without a run state that can be stored",
        ),
        (
            evolve(requests(READ), framework_run_state="\ud800"),
            (),
            "without a run state that can be stored",
        ),
        (requests(), (), "without naming a call"),
        (
            ToolCallsRequested("state", (evolve(deferred(READ), framework_memo="\ud800"),)),
            (),
            "the memo of tool call a cannot be stored",
        ),
        (requests(READ, READ), (), "tool call IDs repeat within turn-2: ['a']"),
        (requests(READ), ENDED, "tool call IDs repeat within turn-2: ['a']"),
        (
            ToolCallsRequested("state", (evolve(deferred(READ), tool_call_id=""),)),
            (),
            "tool call ID '' must have 1 to 256 characters, not be blank, and hold no '/'",
        ),
        (
            ToolCallsRequested("state", (evolve(deferred(READ), tool_name="\t"),)),
            (),
            "the model's call of '\\t': tool name '\\t' must have 1 to 256 characters and not be blank",
        ),
        (
            ToolCallsRequested("state", (evolve(deferred(READ), tool_name=LONG_NAME),)),
            (),
            f"tool name '{LONG_NAME[:40]}' must have 1 to 256 characters and not be blank",
        ),
        (
            ToolCallsRequested(
                "state",
                (
                    evolve(deferred(READ), tool_call_id="\x00"),
                    evolve(deferred(READ), tool_call_id="\ud800"),
                ),
            ),
            (),
            "tool call IDs repeat within turn-2: ['\ufffd']",
        ),
    ],
    ids=[
        "no run state",
        "a run state that UTF-8 cannot hold",
        "no calls",
        "a memo that UTF-8 cannot hold",
        "an ID twice in a response",
        "an ID of an earlier model call of the turn",
        "an empty ID",
        "a blank name",
        "a long name",
        "IDs that become one when they are cleaned",
    ],
)
def test_fan_out_tool_calls__refuses_what_breaks_the_runner_contract(
    asked: ToolCallsRequested, earlier: tuple[Succeeded | Rejected, ...], message: str
) -> None:
    given = view(TurnView, tool_calls=earlier)

    with pytest.raises(ContractBroken, match=f"{re.escape(message)}$"):
        react(RUN, given, asked, NOW)


@pytest.mark.parametrize("name", ["a/b", LONG_NAME, " "], ids=["a slash", "long", "blank"])
def test_fan_out_tool_calls__lets_a_name_stand_for_an_id_that_it_cannot_hold(name: str) -> None:
    asked = ToolCallsRequested("state", (evolve(deferred(READ), tool_call_id=name),))

    decision = react(RUN, view(TurnView), asked, NOW)

    assert isinstance(decision, StepDecision)
    kept = [w.record.tool_call_id for w in decision.commit.writes if isinstance(w, PutToolCall)]
    assert kept == [ToolCallId.standing_for(name)]


@pytest.mark.parametrize("arguments", NO_ARGUMENTS)
def test_fan_out_tool_calls__guesses_no_arguments(arguments: str) -> None:
    asked = requests(READ, call("b", order=1, arguments=arguments))
    message = f"the arguments of the model's call of 'tool_b' are no JSON object: {arguments!r}"

    with pytest.raises(ContractBroken, match=f"^{re.escape(message)}$"):
        react(RUN, view(TurnView), asked, NOW)


@pytest.mark.parametrize(
    ("questions", "shown_bytes"), [(100, 245), (25, 983), (24, 1024), (1, 1024)]
)
def test_fan_out_tool_calls__shows_24_kibibytes_of_all_questions_and_1_of_each(
    questions: int, shown_bytes: int
) -> None:
    asked = tuple(
        call(f"c{n}", order=n, arguments='{"' + "x" * 1994 + '":1}', requires_approval=True)
        for n in range(questions)
    )

    decision = react(RUN, view(TurnView), requests(*asked), NOW)

    assert isinstance(decision, StepDecision)
    listed = [w.interrupts for w in decision.commit.writes if isinstance(w, SetInterrupts)]
    shown = '{"' + "x" * (shown_bytes - 2) + "... [2000 bytes in full]"
    assert [[i.arguments for i in interrupts] for interrupts in listed] == [[shown] * questions]


def test_fan_out_tool_calls__keeps_how_long_a_tool_may_take() -> None:
    policy = ToolPolicy(ToolEffect.READ, timeout=timedelta(seconds=30))
    asked = ToolCallsRequested("state", (evolve(deferred(READ), policy=policy),))

    decision = react(RUN, view(TurnView), asked, NOW)

    assert isinstance(decision, StepDecision)
    (kept,) = (each.record for each in decision.commit.writes if isinstance(each, PutToolCall))
    assert kept.call.timeout_seconds == 30
