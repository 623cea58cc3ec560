"""An answer decides the one call that it names, and no other, whichever happens to wait.

Two calls of one tool wait, with different arguments. Approving the second runs the second. An ID
that does not wait, in any of the ways in which one can fail to, is refused and changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from attrs import evolve

from dex_agents_model import AgentInterrupt, AgentSessionOptions, InterruptId
from dex_agents_model.notes import DEFAULT_REJECTION_MESSAGE
from dex_agents_model.simulation import (
    Answers,
    Asks,
    Scenario,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
    explore,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

A: Final = Call(id="a", tool="ask", output="paid Ada")
B: Final = Call(id="b", tool="ask", output="paid Bob")
DENIED: Final = f"denied: {DEFAULT_REJECTION_MESSAGE}"


async def _two_questions(bench: Bench) -> tuple[Talk, AgentInterrupt, AgentInterrupt]:
    talk = bench.talk()
    await talk.start(Reply(calls=(A, B)), Reply(text="an answer"))
    about_a, about_b = await talk.questions(2)
    assert (about_a.tool_call_id, about_b.tool_call_id) == ("a", "b")
    return talk, about_a, about_b


async def _runs(talk: Talk, *call_ids: str) -> None:
    """Wait until so many have run, and hold that those were the ones."""
    await talk.has_begun("ask", len(call_ids))
    assert talk.keys("ask") == [f"turn-1/{call_id}" for call_id in call_ids]


@pytest.mark.parametrize("chosen", ["a", "b"])
async def test_approval__runs_the_call_that_it_names(bench: Bench, chosen: str) -> None:
    talk, *both = await _two_questions(bench)
    [named] = [question for question in both if question.tool_call_id == chosen]
    [other] = [question for question in both if question.tool_call_id != chosen]

    assert await talk.answer(named, approved=True)

    await _runs(talk, chosen)
    assert await talk.questions() == (other,)
    assert not await talk.answer(named, approved=True)
    assert await talk.answer(other, approved=False)
    await talk.end_of_turn()
    told = {"a": "success: paid Ada", "b": "success: paid Bob"}
    assert await talk.told() == {**told, other.tool_call_id: DENIED}
    assert talk.keys("ask") == [f"turn-1/{chosen}"]


async def test_answer__to_what_does_not_wait_is_refused_and_changes_nothing(bench: Bench) -> None:
    talk, about_a, about_b = await _two_questions(bench)
    elsewhere, *_ = await _two_questions(bench)
    assert await talk.answer(about_b, approved=False)
    before = await talk.questions()

    foreign = ["turn-1.b", "turn-2.a", "turn-1.c", "turn-1.a ", "turn-1.A"]
    for interrupt_id in map(InterruptId, foreign):
        for approved in (True, False):
            assert not await talk.sessions.resolve_interrupt(
                talk.session_id, interrupt_id, approved=approved
            )
    assert not await talk.answer(about_a, approved=True, arguments_digest=about_b.arguments_digest)

    assert before == await talk.questions() == (about_a,)
    assert talk.keys("ask") == elsewhere.keys("ask") == []
    assert len(await elsewhere.questions(2)) == 2
    assert await talk.answer(about_a, approved=True)
    await talk.end_of_turn()
    assert await talk.told() == {"a": "success: paid Ada", "b": DENIED}


async def test_answer__to_an_earlier_turns_call_of_the_same_id_is_refused(bench: Bench) -> None:
    talk, about_a, about_b = await _two_questions(bench)
    for question in (about_a, about_b):
        assert await talk.answer(question, approved=False)
    await talk.end_of_turn()

    await talk.say(Reply(calls=(A, B)), Reply(text="another"))
    new_a, new_b = await talk.questions(2)

    assert not await talk.answer(about_a, approved=True)
    assert not await talk.answer(about_b, approved=True)
    assert await talk.questions(2) == (new_a, new_b)
    assert await talk.answer(new_b, approved=True)
    assert await talk.answer(new_a, approved=False)
    await talk.end_of_turn(2)
    assert talk.keys("ask") == ["turn-2/b"]


async def test_answers__of_two_people_at_once_each_decide_their_own_call(bench: Bench) -> None:
    talk, about_a, about_b = await _two_questions(bench)
    other_words = evolve(B, output="paid Eve")

    answers = await asyncio.gather(
        talk.answer(about_b, approved=True, edited_arguments=other_words.arguments()),
        talk.answer(about_a, approved=False),
        talk.answer(about_b, approved=True, edited_arguments=other_words.arguments()),
        talk.answer(about_a, approved=False),
    )

    assert sorted(answers) == [False, False, True, True]
    await talk.end_of_turn()
    told = await talk.told()
    assert told["a"] == DENIED
    assert told["b"].endswith("paid Eve")
    assert talk.keys("ask") == ["turn-1/b"]


# --- in the model ----------------------------------------------------------------------------

_TWICE: Final = ScriptedRunner(
    {"go": (Asks(ToolUse("a", "ask", '{"to":"Ada"}'), ToolUse("b", "ask", '{"to":"Bob"}')),)}
)
_OPTIONS: Final = AgentSessionOptions(tool_policies=POLICIES)


def test_world__an_answer_to_what_does_not_wait_changes_no_record() -> None:
    world = SimulatedWorld(_TWICE, options=_OPTIONS, first_message="go")
    world.run()
    before = world.snapshot()

    for foreign in ("turn-1.c", "turn-2.a", "turn-1.a.b"):
        assert not world.resolve(InterruptId(foreign), approved=True)
    world.run()

    after = world.snapshot()
    assert evolve(after, observed_at=before.observed_at) == before


def test_explore__each_answer_decides_its_own_call_whatever_else_happens() -> None:
    """One is approved at any point, and one fault strikes anywhere; the other waits on."""
    seen = explore(
        Scenario(
            name="one tool twice",
            about="two calls of one tool, of which one is approved",
            first_message="go",
            is_timed=False,
            options=_OPTIONS,
            runner=_TWICE,
            acts=(Answers("b", approved=True),),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
