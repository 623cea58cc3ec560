"""Several approvals of one response are all to be seen at once, each under an ID of its own.

In whatever order they are answered, one after the other, at once, or over the death of a Worker,
each decision lands on the call that it was made about.
"""

from __future__ import annotations

import asyncio
from itertools import permutations, product
from typing import Final

import pytest
from attrs import evolve

from dex_agents_model import AgentInterrupt, AgentSessionOptions, InterruptId
from dex_agents_model.records import ApprovalDecision, MessageRole
from dex_agents_model.rules.approval import MAX_PENDING_APPROVALS
from dex_agents_model.simulation import (
    Asks,
    Concludes,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

CALLS: Final = tuple(Call(id=name, tool="ask", output=f"paid {name}") for name in ("x", "y", "z"))
EDITED: Final = evolve(CALLS[1], output="paid somebody else")


async def _three_questions(bench: Bench) -> tuple[Talk, tuple[AgentInterrupt, ...]]:
    talk = bench.talk()
    await talk.start(Reply(calls=CALLS), Reply(text="an answer"))
    questions = await talk.questions(3)
    return talk, questions


async def _decide(talk: Talk, question: AgentInterrupt) -> bool:
    """x is approved, y is approved with other arguments, z is rejected."""
    if question.tool_call_id == "z":
        return await talk.answer(question, approved=False, rejection_message="not z")
    edited = EDITED.arguments() if question.tool_call_id == "y" else None
    return await talk.answer(question, approved=True, edited_arguments=edited)


async def _check_decisions(talk: Talk) -> None:
    await talk.end_of_turn()
    edited = f"[An approver changed the arguments to {EDITED.arguments()}]"
    assert await talk.told() == {
        "x": "success: paid x",
        "y": f"success: {edited}\npaid somebody else",
        "z": "denied: not z",
    }
    assert sorted(talk.keys("ask")) == ["turn-1/x", "turn-1/y"]
    page = await talk.sessions.list_approvals(talk.session_id)
    assert sorted((kept.tool_call_id, kept.decision) for kept in page.approvals) == [
        ("x", ApprovalDecision.APPROVED),
        ("y", ApprovalDecision.APPROVED),
        ("z", ApprovalDecision.REJECTED),
    ]


async def test_questions__are_seen_at_once_and_answered_in_every_order(bench: Bench) -> None:
    async def in_order(order: tuple[int, ...]) -> None:
        talk, questions = await _three_questions(bench)
        assert [(q.interrupt_id, q.tool_call_id, q.arguments) for q in questions] == [
            (f"turn-1.{call.id}", call.id, call.arguments()) for call in CALLS
        ]
        for position in order:
            assert await _decide(talk, questions[position])
        await _check_decisions(talk)

    await asyncio.gather(*(in_order(order) for order in permutations(range(3))))


async def test_questions__are_answered_all_at_once(bench: Bench) -> None:
    talk, questions = await _three_questions(bench)

    assert await asyncio.gather(*(_decide(talk, question) for question in questions)) == [True] * 3

    await _check_decisions(talk)


async def test_questions__keep_their_answers_over_a_workers_death(bench: Bench) -> None:
    opened = [await _three_questions(bench) for _ in range(3)]
    for number, (talk, questions) in enumerate(opened):
        for question in questions[:number]:
            assert await _decide(talk, question)

    bench.kill_worker()
    await bench.start_worker()

    for number, (talk, questions) in enumerate(opened):
        left = await talk.questions(3 - number)
        assert left == questions[number:]
        for question in reversed(left):
            assert await _decide(talk, question)
        await talk.end_of_turn()
        assert (await talk.told())["z"] == "denied: not z"


async def test_questions__of_as_many_calls_as_may_wait_are_all_distinct(bench: Bench) -> None:
    talk = bench.talk()
    names = [f"{number:03}" for number in range(MAX_PENDING_APPROVALS)]
    calls = tuple(Call(id=name, tool="ask", output=name) for name in names)
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    questions = await talk.questions(MAX_PENDING_APPROVALS)
    assert [question.interrupt_id for question in questions] == [f"turn-1.{name}" for name in names]

    for question in sorted(questions, key=lambda asked: asked.tool_call_id[::-1]):
        approved = question.tool_call_id.endswith("7")
        assert await talk.answer(question, approved=approved)

    await talk.end_of_turn()
    told = await talk.told()
    assert list(told) == names
    assert [name for name in names if told[name] == f"success: {name}"] == names[7::10]
    assert sorted(talk.keys("ask")) == [f"turn-1/{name}" for name in names[7::10]]


@pytest.mark.parametrize("order", list(permutations("xyz")))
def test_world__each_order_and_each_set_of_decisions_lands_as_it_was_made(
    order: tuple[str, ...],
) -> None:
    """All eight sets of decisions, with every invariant of approvals watched after each commit."""
    uses = [ToolUse(call.id, "ask", f'{{"to":"{call.id}"}}') for call in CALLS]
    runner = ScriptedRunner({"go": (Asks(*uses), Concludes("Gone."))})
    for decisions in product((True, False), repeat=3):
        world = SimulatedWorld(
            runner, options=AgentSessionOptions(tool_policies=POLICIES), first_message="go"
        )
        world.run()
        decided = dict(zip(order, decisions, strict=True))
        for call, approved in decided.items():
            assert world.resolve(InterruptId(f"turn-1.{call}"), approved=approved)
        world.run()

        results = [m for m in world.snapshot().messages if m.role is MessageRole.TOOL]
        assert {m.tool_call_id: m.text == "ok" for m in results} == decided
