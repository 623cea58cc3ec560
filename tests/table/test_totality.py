"""Nothing is missing from the table, and nothing stands in it that cannot happen.

A literal table loses the exhaustiveness of ``match``: these tests give it back. They read the
examples of tests/rules, so a row without an example fails here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from attrs import NOTHING, fields

from dex_agents_model.calls import ToolEffect
from dex_agents_model.decision import (
    Commit,
    EndBranch,
    GoTo,
    Publish,
    Reaction,
    RpcDecision,
    StepDecision,
    Write,
)
from dex_agents_model.effects import (
    AttemptsExhausted,
    BuildUnfinishedTurn,
    CallModel,
    DeadlineReached,
    Effect,
    Entered,
    ExecuteTool,
    HistorySummarized,
    InterruptAnswered,
    Occurrence,
    Outcome,
    Summarize,
    ToolCallsRequested,
    ToolRaised,
    ToolResultsArrived,
    ToolReturned,
    TurnCompleted,
    TurnGivenUp,
    UnfinishedTurnBuilt,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.policy import EFFECT_RULES
from dex_agents_model.requests import Request
from dex_agents_model.spec import Limits, RpcSpec, Spec, row_name
from dex_agents_model.steps import RecordTurnFailure, Step
from dex_agents_model.table import RPCS, SPEC_OF, SPECS
from dex_agents_model.waits import (
    ForInterruptResolution,
    ForToolResults,
    ForUserMessage,
    NoWait,
    Wait,
)
from tests.rules.cases import Answers, Case, Reacts, Waits, all_cases

STEPS = get_args(Step)
EFFECTS = get_args(Effect)
FAILURE_ROUTES = {
    entry.limits.on_exhausted for entry in SPECS if entry.limits.on_exhausted is not None
}

ENTERED = {
    SPECS[0].step,
    *(target for entry in SPECS for row in entry.rows for target in row.to),
    *(target for entry in RPCS for target in entry.to),
}

CASES: tuple[Case, ...] = tuple(all_cases())
REACTIONS = tuple(case for case in CASES if isinstance(case, Reacts))
WAITS = tuple(case for case in CASES if isinstance(case, Waits))

OUTCOMES_OF: dict[type[Effect], set[type[Outcome]]] = {
    CallModel: {TurnCompleted, ToolCallsRequested, TurnGivenUp},
    ExecuteTool: {ToolReturned, ToolRaised},
    Summarize: {HistorySummarized},
    BuildUnfinishedTurn: {UnfinishedTurnBuilt},
}


def occurrences_of(wait: Wait) -> set[type[Occurrence]]:
    """What may end ``wait``."""
    match wait:
        case NoWait():
            return {Entered}
        case ForUserMessage():
            return {UserSpoke, UserSteered}
        case ForInterruptResolution(at_most=None):
            return {InterruptAnswered}
        case ForInterruptResolution():
            return {InterruptAnswered, DeadlineReached}
        case ForToolResults():
            return {ToolResultsArrived}


def possible_occurrences(entry: Spec[Any, Any]) -> set[type[Occurrence]]:
    """All that can happen to a Step: by its route, by the waits of its examples, by its effects.

    A Step is entered when a row or an RPC leads to it, or when the session starts with it; a
    failure route is so, besides, by the exhaustion of another Step.
    """
    possible: set[type[Occurrence]] = set()
    if entry.step in FAILURE_ROUTES:
        possible.add(AttemptsExhausted)
    if entry.wait is None and entry.step in ENTERED:
        possible.add(Entered)
    if entry.wait is not None:
        planned = [
            occurrences_of(case.then.wait) for case in WAITS if type(case.step) is entry.step
        ]
        possible.update(*planned)
    for row in entry.rows:
        for effect in row.to & set(EFFECTS):
            possible |= OUTCOMES_OF[effect]
    return possible


def targets(reaction: Reaction) -> set[type[Any]]:
    match reaction:
        case StepDecision(next=GoTo(steps)):
            return set(map(type, steps))
        case StepDecision(next=end):
            return {type(end)}
        case effect:
            return {type(effect)}


def by_step(entry: Spec[Any, Any]) -> str:
    return entry.step.__name__


def test_specs__name_every_step_once() -> None:
    assert sorted(map(by_step, SPECS)) == sorted(step.__name__ for step in STEPS)


def test_rpcs__name_every_request_once() -> None:
    assert sorted(entry.request.__name__ for entry in RPCS) == sorted(
        request.__name__ for request in get_args(Request)
    )


def test_effects__each_has_its_outcomes() -> None:
    assert set(OUTCOMES_OF) == set(EFFECTS)
    assert set().union(*OUTCOMES_OF.values()) == set(get_args(Outcome))


@pytest.mark.parametrize("entry", SPECS, ids=by_step)
def test_rows__are_exactly_what_can_happen_to_the_step(entry: Spec[Any, Any]) -> None:
    rows = [row.on for row in entry.rows]

    assert sorted(rows, key=repr) == sorted(possible_occurrences(entry), key=repr)


@pytest.mark.parametrize("entry", SPECS, ids=by_step)
def test_rows__lead_to_steps_effects_or_the_end_of_the_branch(entry: Spec[Any, Any]) -> None:
    named = set().union(*(row.to for row in entry.rows))

    assert named - {*STEPS, *EFFECTS, EndBranch} == set()


@pytest.mark.parametrize("entry", SPECS, ids=by_step)
def test_rows__lead_by_example_exactly_where_they_say(entry: Spec[Any, Any]) -> None:
    shown: dict[tuple[str, str], set[type[Any]]] = {}
    for case in REACTIONS:
        if type(case.step) is entry.step:
            rule, _, _ = case.claim.partition("__")
            cited = row_name(entry.step, type(case.on))
            shown.setdefault((cited, rule), set()).update(targets(case.then))

    assert shown == {
        (row_name(entry.step, row.on), row.rule.__name__): set(row.to) for row in entry.rows
    }


@pytest.mark.parametrize("entry", [entry for entry in SPECS if entry.wait], ids=by_step)
def test_waits__each_is_shown_by_example(entry: Spec[Any, Any]) -> None:
    shown = {case.claim.partition("__")[0] for case in WAITS if type(case.step) is entry.step}

    assert entry.wait is not None
    assert shown == {entry.wait.__name__}


def test_rpcs__each_is_shown_by_example() -> None:
    shown = {
        (type(case.request), case.claim.partition("__")[0])
        for case in CASES
        if isinstance(case, Answers)
    }

    assert shown == {(entry.request, entry.rule.__name__) for entry in RPCS}


@pytest.mark.parametrize("entry", RPCS, ids=lambda entry: entry.request.__name__)
def test_rpcs__start_and_end_by_example_exactly_what_they_say(entry: RpcSpec[Any, Any]) -> None:
    shown = [
        case.then
        for case in CASES
        if isinstance(case, Answers) and type(case.request) is entry.request
    ]

    assert {type(step) for then in shown if then.next for step in then.next.steps} == set(entry.to)
    assert {step for then in shown for step in then.cancel} == set(entry.cancels)


def test_rpcs__write_only_in_a_transaction() -> None:
    writing = {
        type(case.request)
        for case in CASES
        if isinstance(case, Answers) and (case.then.writes or case.then.publishes)
    }

    assert writing == {entry.request for entry in RPCS if entry.transactional}


def test_examples__show_every_write_and_every_publish() -> None:
    made: list[Commit | RpcDecision[Any]] = [case.then.commit for case in WAITS]
    made += [case.then.commit for case in REACTIONS if isinstance(case.then, StepDecision)]
    made += [case.then for case in CASES if isinstance(case, Answers)]

    written = {type(write) for each in made for write in each.writes}
    published = {type(sent) for each in made for sent in each.publishes}
    assert (written, published) == (set(get_args(Write)), set(get_args(Publish)))


def test_examples__load_what_their_step_or_request_reads() -> None:
    read = {(entry.step, entry.reads) for entry in SPECS}
    answered = {(entry.request, entry.reads) for entry in RPCS}
    loaded = {
        (type(case.request if isinstance(case, Answers) else case.step), type(case.view))
        for case in CASES
    }

    assert loaded == read | answered


def test_examples__make_each_claim_once() -> None:
    claims = [case.claim for case in CASES]

    assert sorted({claim for claim in claims if claims.count(claim) > 1}) == []


def test_steps__each_is_reached_and_the_first_only_by_starting() -> None:
    first, *later = SPECS
    led_to = set().union(*(row.to for entry in SPECS for row in entry.rows)) | FAILURE_ROUTES

    assert {entry.step for entry in later} == (led_to | ENTERED) & set(STEPS) - {first.step}
    assert first.step not in led_to


@pytest.mark.parametrize(
    "entry", [entry for entry in SPECS if entry.limits.on_exhausted], ids=by_step
)
def test_failure_routes__need_nothing_that_the_step_that_failed_was_not_given(
    entry: Spec[Any, Any],
) -> None:
    route = entry.limits.on_exhausted

    assert route is not None
    needed = {(f.name, f.type) for f in fields(route) if f.default is NOTHING}
    assert needed <= {(f.name, f.type) for f in fields(entry.step)}


def test_limits__without_a_route_never_end() -> None:
    assert {entry.step for entry in SPECS if entry.limits.attempts is None} == {
        entry.step for entry in SPECS if entry.limits.on_exhausted is None
    }


@pytest.mark.parametrize(("attempts", "route"), [(None, RecordTurnFailure), (3, None)])
def test_limits__refuse_an_end_without_a_route_and_a_route_without_an_end(
    attempts: int | None, route: type[Step] | None
) -> None:
    minute = timedelta(minutes=1)

    with pytest.raises(ValueError, match="a failure route exactly when its attempts are limited"):
        Limits(attempts=attempts, attempt_timeout=minute, within=minute, on_exhausted=route)


def test_limits__are_endless_for_failure_routes() -> None:
    assert [SPEC_OF[route].limits.attempts for route in FAILURE_ROUTES] == [None] * len(
        FAILURE_ROUTES
    )


@pytest.mark.parametrize("effect", ToolEffect, ids=str)
def test_limits__let_a_call_start_as_often_as_its_effect_allows(effect: ToolEffect) -> None:
    starting = [
        case.step
        for case in REACTIONS
        if isinstance(case.then, ExecuteTool) and case.then.record.effect is effect
    ]

    assert {SPEC_OF[type(step)].limits.attempts for step in starting} == {
        EFFECT_RULES[effect].attempts
    }
