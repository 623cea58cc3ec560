"""A tool that asks the model to try again, refuses, wants an approval or leaves its work to others has had its say.

It ran once, in one attempt of its Step, whatever its effect; its word is its result, which the
model reads. The engine never runs its work again for it. What it left to others may be done yet:
of a write that is told as unknown.
"""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_dex.testing import EXECUTE_COMPLETED_EVENT, WAIT_FOR_COMPLETED_EVENT
from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, AgentSessionOptions
from dex_agents_model.simulation import (
    Asks,
    Concludes,
    Refuses,
    Scenario,
    ScriptedRunner,
    ToolUse,
    explore,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

READ: Final = "look"
TOOLS: Final = (READ, "put", "pay", "poke")
"""One for each effect; none of them asks a person."""

FAILED: Final = "failed: The tool call failed: "
WORDS: Final = {
    "retry": "another word, please",
    "refusal": "no such order",
    "approval": (
        "The tool {tool} asked for approval while it ran."
        " It needs a ToolPolicy with requires_approval=True."
    ),
}
APPROVED_WORDS: Final = {
    "retry": FAILED + WORDS["retry"],
    "refusal": FAILED + WORDS["refusal"],
    "approval": f"{FAILED}The tool ask asked for approval again, after a person had given it.",
    "deferral": f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}",
}


async def _check_that_no_attempt_failed(bench: Bench, talk: Talk) -> None:
    ends = {(entry.event_type, entry.final_attempt) for entry in await bench.steps(talk)}
    assert ends == {(WAIT_FOR_COMPLETED_EVENT, 1), (EXECUTE_COMPLETED_EVENT, 1)}


@pytest.mark.parametrize("way", WORDS)
async def test_tool__that_speaks_by_an_exception_runs_once(bench: Bench, way: str) -> None:
    talk = bench.talk()
    calls = tuple(Call(id=f"c-{tool}", tool=tool, way=way) for tool in TOOLS)
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await talk.end_of_turn()

    assert {tool: talk.keys(tool) for tool in TOOLS} == {
        tool: [f"turn-1/c-{tool}"] for tool in TOOLS
    }
    assert await talk.told() == {
        f"c-{tool}": FAILED + WORDS[way].format(tool=tool) for tool in TOOLS
    }
    await _check_that_no_attempt_failed(bench, talk)


async def test_tool__that_leaves_its_work_to_others_runs_once(bench: Bench) -> None:
    talk = bench.talk()
    calls = tuple(Call(id=f"c-{tool}", tool=tool, way="deferral") for tool in TOOLS)
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await talk.end_of_turn()

    assert {tool: talk.keys(tool) for tool in TOOLS} == {
        tool: [f"turn-1/c-{tool}"] for tool in TOOLS
    }
    told = await talk.told()
    assert told.pop("c-look") == (
        f"{FAILED}The tool look deferred its call to code outside the session, whose result never comes."
    )
    assert told == {f"c-{tool}": f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}" for tool in TOOLS[1:]}
    await _check_that_no_attempt_failed(bench, talk)


@pytest.mark.parametrize("way", APPROVED_WORDS)
async def test_tool__that_a_person_has_approved_speaks_and_is_not_asked_about_again(
    bench: Bench, way: str
) -> None:
    talk = bench.talk()
    await talk.start(Reply(calls=(Call(id="c", tool="ask", way=way),)), Reply(text="an answer"))
    (question,) = await talk.questions()
    assert await talk.answer(question, approved=True)
    snapshot = await talk.end_of_turn()

    assert talk.calls() == [("model", 1), ("ask", 1), ("model", 1)]
    assert await talk.told() == {"c": APPROVED_WORDS[way]}
    assert snapshot.pending_interrupts == ()
    await _check_that_no_attempt_failed(bench, talk)


async def test_tool__that_asked_for_another_try_runs_again_only_as_another_call(
    bench: Bench,
) -> None:
    talk = bench.talk()
    first, second = Call(id="first", tool="pay", way="retry"), Call(id="second", tool="pay")
    await talk.start(Reply(calls=(first,)), Reply(calls=(second,)), Reply(text="an answer"))
    await talk.end_of_turn()

    assert talk.keys("pay") == ["turn-1/first", "turn-1/second"]
    assert await talk.told() == {
        "first": FAILED + WORDS["retry"],
        "second": "success: done",
    }


@pytest.mark.parametrize("may_have_happened", [False, True])
def test_explore__a_tools_word_is_final_in_every_interleaving(may_have_happened: bool) -> None:
    word = Refuses("no such order", may_have_happened)
    seen = explore(
        Scenario(
            name="a tool's word",
            about="two writes, of which one may start once, have their say",
            first_message="go",
            is_timed=False,
            options=AgentSessionOptions(tool_policies=POLICIES),
            runner=ScriptedRunner(
                {"go": (Asks(ToolUse("a", "put"), ToolUse("b", "pay")), Concludes("Gone."))},
                {"put": word, "pay": word},
            ),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
