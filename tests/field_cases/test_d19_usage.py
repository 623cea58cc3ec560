"""A session's usage is the sum over its committed model calls: each once, whatever paused or broke in between.

What a failed attempt had used is told apart, in its event and in its span, and never added. The
session's number, the events and the spans agree.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from dex_agents_dex.testing import wait_until
from dex_agents_model import (
    AgentEventType,
    AgentSessionOptions,
    AgentUsage,
    ToolEffect,
    ToolPolicy,
)
from dex_agents_model.events import ModelCallFailedEvent, UsageRecorded
from dex_agents_model.simulation import (
    Answers,
    Asks,
    Breaks,
    Cancels,
    Concludes,
    Scenario,
    ScriptedRunner,
    ToolUse,
    explore,
)
from tests.adapter.openai_protocol import USED_BY_ONE_CALL, calls, text
from tests.adapter.sse_server import Reply, cut, held, refused
from tests.tracing.seen import committed_usage, usage_in

from .bench import Bench, Talk
from .remote import TYPED, spans_in

ASKS = calls(("ask", '{"number": 7}', "c-ask"))
ANSWER = text("It is ", "back.")
NOTHING = AgentUsage()


@frozen
class Spent:
    """What one source says: the sum of what counts, and what each failed attempt had used, in order."""

    counted: AgentUsage
    lost: list[AgentUsage]


def used_up(whole: Reply) -> Reply:
    """``whole``, cut when its usage was told and its end was not."""
    return cut(whole, after_frames=len(whole.frames) - 1)


def times(count: int) -> AgentUsage:
    total = NOTHING
    for _ in range(count):
        total += USED_BY_ONE_CALL
    return total


async def by_events(talk: Talk, last: AgentEventType) -> Spent:
    counted, lost = NOTHING, []
    for event in await talk.events_through(last):
        match event.payload:
            case UsageRecorded(recorded, session):
                counted += recorded
                assert session == counted
            case ModelCallFailedEvent(used=used):
                lost.append(used)
    return Spent(counted, lost)


async def by_spans(bench: Bench, talk: Talk) -> Spent:
    """Once the whole turn was traced."""

    def whole() -> list[dict[str, Any]] | None:
        spans = [
            span
            for span in spans_in(bench.state_dir)
            if span["attributes"].get("gen_ai.conversation.id") == talk.session_id
        ]
        return spans if any(s["name"].startswith("invoke_agent") for s in spans) else None

    spans = await wait_until("the spans of the turn", whole)
    told = [span["attributes"] for span in spans if span["name"].startswith("chat")]
    return Spent(
        committed_usage(spans),
        [usage_in(a) for a in told if "error.type" in a and "dex.usage.requests" in a],
    )


async def assert_spent(
    bench: Bench, talk: Talk, counted: AgentUsage, *lost: AgentUsage, ended: str = "completed"
) -> None:
    """The session, its events and its spans say the same."""
    assert (await talk.end_of_turn()).usage == counted
    spent = Spent(counted, list(lost))
    assert await by_events(talk, AgentEventType(f"turn_{ended}")) == spent
    assert await by_spans(bench, talk) == spent


async def test_usage__of_a_turn_that_waits_for_a_person_and_loses_an_attempt(bench: Bench) -> None:
    talk = await bench.remote(ASKS, used_up(ANSWER), ANSWER)
    (question,) = await talk.questions()
    assert (await talk.sessions.get_agent_snapshot(talk.session_id)).usage == times(1)

    assert await talk.answer(question, approved=True)

    assert (await talk.answers())[-1] == "It is back."
    await assert_spent(bench, talk, times(2), USED_BY_ONE_CALL)


async def test_usage__of_an_attempt_that_is_lost_before_the_pause(bench: Bench) -> None:
    talk = await bench.remote(used_up(ASKS), refused(503), ASKS, ANSWER)
    (question,) = await talk.questions()
    assert await talk.answer(question, approved=False)

    await talk.end_of_turn()
    await assert_spent(bench, talk, times(2), USED_BY_ONE_CALL, NOTHING)


async def test_usage__of_a_turn_that_fails_is_told_and_counts_for_nothing(bench: Bench) -> None:
    talk = await bench.remote(*[used_up(ANSWER)] * 3)

    await talk.end_of_turn()
    await assert_spent(bench, talk, NOTHING, *[USED_BY_ONE_CALL] * 3, ended="failed")


async def test_usage__of_a_call_with_corrections_is_that_of_all_its_requests(bench: Bench) -> None:
    """The correction's own request is lost once, behind one that was answered and billed."""
    bad, good = text("fine"), calls(("final_result", '{"verdict": "fine", "sure": true}', "c"))
    talk = await bench.remote(bad, refused(503), bad, good, flow_type=TYPED)

    await talk.end_of_turn()
    await assert_spent(bench, talk, times(2), USED_BY_ONE_CALL)


async def test_usage__of_a_call_that_dies_with_its_worker_is_unknown_and_not_counted(
    bench: Bench,
) -> None:
    talk = await bench.remote(ASKS, held(ANSWER, after_frames=1), ANSWER)
    (question,) = await talk.questions()
    assert await talk.answer(question, approved=True)
    await wait_until(
        "the call that is held", lambda: len(bench.provider.asked(talk.session_id)) == 2
    )

    bench.kill_worker()
    await bench.start_worker()

    await talk.end_of_turn()
    await assert_spent(bench, talk, times(2))


async def test_usage__of_a_cancelled_call_is_not_counted(bench: Bench) -> None:
    talk = await bench.remote(ASKS, held(ANSWER, after_frames=1))
    (question,) = await talk.questions()
    assert await talk.answer(question, approved=True)
    await wait_until(
        "the call that is held", lambda: len(bench.provider.asked(talk.session_id)) == 2
    )

    assert await talk.sessions.cancel_turn(talk.session_id)

    await talk.end_of_turn()
    await assert_spent(bench, talk, times(1), ended="cancelled")


# --- in the model: the invariant "usage is the sum of committed calls", at every point ---------------


def test_usage__is_the_sum_in_every_interleaving() -> None:
    seen = explore(
        Scenario(
            name="usage",
            about="a call that waits for a person between two model calls whose first attempts break",
            is_timed=False,
            first_message="go",
            options=AgentSessionOptions(
                tool_policies={"ask": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE)}
            ),
            runner=ScriptedRunner(
                {"go": (Breaks(then=Asks(ToolUse("c", "ask"))), Breaks(then=Concludes("Done.")))}
            ),
            acts=(Answers("c"), Cancels()),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
