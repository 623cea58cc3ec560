"""A person has decided, and then the model call fails for good: the decision stands, and the session goes on.

The turn ends as failed, once; no question is left behind, and none of it is asked again. The next
turn's model is told what was decided and what ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from dex_agents_model import AgentEventType, AgentSessionOptions, InterruptId
from dex_agents_model.notes import DEFAULT_REJECTION_MESSAGE, EXPIRED_MESSAGE, SUPERSEDED_MESSAGE
from dex_agents_model.records import ApprovalDecision, TurnFailed, WaitingForUserMessage
from dex_agents_model.simulation import (
    Answers,
    Asks,
    Breaks,
    Says,
    Scenario,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
    explore,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .agent import IMPATIENT, OBEDIENT
from .bench import Bench, Talk

ERROR: Final = "no model today"
DENIED: Final = f"denied: {DEFAULT_REJECTION_MESSAGE}"
Decide = Callable[[Talk, InterruptId], Awaitable[None]]


async def _reject(talk: Talk, asked: InterruptId) -> None:
    assert await talk.sessions.resolve_interrupt(talk.session_id, asked, approved=False)


async def _approve(talk: Talk, asked: InterruptId) -> None:
    assert await talk.sessions.resolve_interrupt(talk.session_id, asked, approved=True)


async def _speak_instead(talk: Talk, asked: InterruptId) -> None:
    assert await talk.sessions.steer_user_message(talk.session_id, "something else, please")


async def _say_nothing(talk: Talk, asked: InterruptId) -> None:
    """Its deadline decides."""


CASES: Final[dict[ApprovalDecision, tuple[str, Decide, str, int]]] = {
    ApprovalDecision.REJECTED: (OBEDIENT, _reject, DENIED, 0),
    ApprovalDecision.APPROVED: (OBEDIENT, _approve, "success: done", 1),
    ApprovalDecision.SUPERSEDED: (OBEDIENT, _speak_instead, f"denied: {SUPERSEDED_MESSAGE}", 0),
    ApprovalDecision.EXPIRED: (IMPATIENT, _say_nothing, f"denied: {EXPIRED_MESSAGE}", 0),
}
"""The Flow, how the decision comes about, what the model is told, and how often the tool runs."""


async def _fails_after(bench: Bench, decision: ApprovalDecision) -> None:
    flow_type, decide, told, runs = CASES[decision]
    talk = bench.talk(flow_type)
    calls = (Call(id="asked", tool="ask"), Call(id="other", tool="pay"))
    await talk.start(Reply(calls=calls), Reply(crash=ERROR))
    (question,) = await talk.questions()
    await decide(talk, question.interrupt_id)

    events = await talk.events_through(AgentEventType.TURN_FAILED)
    snapshot = await talk.end_of_turn()
    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert isinstance(snapshot.state.last_turn, TurnFailed)
    assert ERROR in snapshot.state.last_turn.error
    assert (snapshot.pending_interrupts, snapshot.tool_calls) == ((), ())
    assert [event.type for event in events].count(AgentEventType.INTERRUPT_RESOLVED) == 1
    assert talk.keys("model") == ["turn-1/0", *["turn-1/1"] * 3]
    assert await talk.told() == {"asked": told, "other": "success: done"}

    assert not await talk.answer(question, approved=True)
    assert await talk.say(Reply(text="here I am"))
    assert await talk.answers(2) == ["here I am"]
    await talk.history()
    assert (len(talk.keys("ask")), len(talk.keys("pay"))) == (runs, 1)
    page = await talk.sessions.list_approvals(talk.session_id)
    assert [(kept.interrupt_id, kept.decision) for kept in page.approvals] == [
        (question.interrupt_id, decision)
    ]


async def test_decision__of_each_kind_outlives_the_turn_that_fails_after_it(bench: Bench) -> None:
    await asyncio.gather(*(_fails_after(bench, decision) for decision in CASES))


async def test_next_turn__after_a_failed_one_asks_about_its_own_call_alone(bench: Bench) -> None:
    talk = bench.talk()
    call = Call(id="asked", tool="ask")
    await talk.start(Reply(calls=(call,)), Reply(crash=ERROR))
    (first,) = await talk.questions()
    await _reject(talk, first.interrupt_id)
    await talk.end_of_turn()

    await talk.say(Reply(calls=(call,)), Reply(text="an answer"))
    (second,) = await talk.questions()
    assert second.interrupt_id != first.interrupt_id
    assert not await talk.answer(first, approved=True)
    assert await talk.answer(second, approved=True)

    await talk.end_of_turn(2)
    assert (await talk.told(1), await talk.told(2)) == (
        {"asked": DENIED},
        {"asked": "success: done"},
    )
    assert talk.keys("ask") == ["turn-2/asked"]


@pytest.mark.parametrize("runner", [ScriptedRunner, ThoroughRunner])
def test_explore__a_decided_turn_fails_and_the_next_one_works(runner: type[ScriptedRunner]) -> None:
    """Whether the runner keeps a failed turn's items or a note tells of them; one fault strikes anywhere."""
    seen = explore(
        Scenario(
            name="failure after a decision",
            about="a call is answered, and the model is down when it is final",
            first_message="go",
            is_timed=False,
            options=AgentSessionOptions(tool_policies=POLICIES),
            runner=runner({"go": (Asks(ToolUse("asked", "ask")), Breaks())}),
            acts=(Answers("asked"), Says("again")),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
