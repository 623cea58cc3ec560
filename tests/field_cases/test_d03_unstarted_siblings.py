"""Of parallel calls, one was final when the Worker died, and the others had not begun.

They run, once each, and the one that was final does not run again. The model is called when all are
final, and not before; it is told of each in the order in which it asked.
"""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, AgentSessionOptions, AgentSnapshot
from dex_agents_model.simulation import (
    Answers,
    Asks,
    Concludes,
    Scenario,
    ScriptedRunner,
    ToolUse,
    explore,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

UNKNOWN: Final = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
SCALE: Final = 24


async def _final(talk: Talk, *call_ids: str) -> None:
    """Wait until these calls have their results."""

    def are_final(snapshot: AgentSnapshot) -> bool:
        ended = {c.tool_call_id for c in snapshot.tool_calls if c.status == "succeeded"}
        return ended >= set(call_ids)

    await talk.when(f"the ends of {call_ids}", are_final)


async def _waiting_for_people(bench: Bench) -> Talk:
    talk = bench.talk()
    calls = (Call(id="1", tool="pay"), Call(id="2", tool="ask"), Call(id="3", tool="ask"))
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await talk.questions(2)
    await _final(talk, "1")
    return talk


async def _taken_but_not_begun(bench: Bench, last: str) -> Talk:
    """The second and third call are a Worker's already, and their tools have not been entered."""
    talk = bench.talk()
    calls = (
        Call(id="1", tool="pay"),
        Call(id="2", tool="look", early_gate="2"),
        Call(id="3", tool=last, early_gate="3"),
    )
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    for gate in ("2", "3"):
        await talk.gate(gate).wait_until_reached()
    await _final(talk, "1")
    return talk


async def _many(bench: Bench) -> Talk:
    """Half of many calls are final; the others have begun."""
    talk = bench.talk()
    calls = tuple(
        Call(id=f"{n}", tool="put", gate="half" if n % 2 else None, output=f"{n}")
        for n in range(SCALE)
    )
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await _final(talk, *(call.id for call in calls if call.gate is None))
    await talk.has_begun("put", SCALE)
    return talk


async def test_calls__that_had_not_begun_run_once_after_the_workers_death(bench: Bench) -> None:
    asked = await _waiting_for_people(bench)
    safe, single = [await _taken_but_not_begun(bench, last) for last in ("put", "poke")]
    many = await _many(bench)

    bench.kill_worker()
    for talk in (safe, single):
        talk.gate("2").release()
        talk.gate("3").release()
    many.gate("half").release()
    await bench.start_worker()

    assert asked.keys("model") == ["turn-1/0"]
    for question in reversed(await asked.questions(2)):
        assert await asked.answer(question, approved=True)
    for talk in (asked, safe, single, many):
        await talk.end_of_turn()
        assert talk.keys("model") == ["turn-1/0", "turn-1/1"]

    done = dict.fromkeys("123", "success: done")
    assert await asked.told() == done
    assert [name for name, _ in asked.calls()] == ["model", "pay", "ask", "ask", "model"]
    assert await safe.told() == done
    assert sorted(safe.calls()) == [
        *(("look", 1), ("model", 1), ("model", 1), ("pay", 1), ("put", 1)),
    ]
    # Its Worker had taken it, so that nobody knows any more whether it began: said, and never assumed.
    assert await single.told() == {**done, "3": UNKNOWN}
    assert sorted(single.calls()) == [("look", 1), ("model", 1), ("model", 1), ("pay", 1)]

    told = await many.told()
    assert list(told.items()) == [(f"{n}", f"success: {n}") for n in range(SCALE)]
    assert {n: many.keys("put").count(f"turn-1/{n}") for n in range(SCALE)} == {
        n: 2 if n % 2 else 1 for n in range(SCALE)
    }


async def test_calls__that_wait_for_a_person_run_once_after_the_engines_death(
    bench: Bench,
) -> None:
    talk = await _waiting_for_people(bench)

    await bench.restart_engine()

    first, second = await talk.questions(2)
    assert await talk.answer(first, approved=True)
    await _final(talk, "2")
    assert talk.keys("model") == ["turn-1/0"]
    assert await talk.answer(second, approved=True)
    await talk.end_of_turn()
    assert await talk.told() == dict.fromkeys("123", "success: done")
    assert [name for name, _ in talk.calls()] == ["model", "pay", "ask", "ask", "model"]


@pytest.mark.parametrize("effects", [("pay", "put", "look"), ("pay", "ask")])
def test_explore__no_call_is_left_out_whenever_a_worker_dies(effects: tuple[str, ...]) -> None:
    """Each interleaving comes to rest, and rest is refused to a session with an open call."""
    uses = tuple(ToolUse(tool, tool) for tool in effects)
    seen = explore(
        Scenario(
            name="siblings",
            about="parallel calls, some final and some not begun when a Worker dies",
            first_message="go",
            is_timed=False,
            options=AgentSessionOptions(tool_policies=POLICIES),
            runner=ScriptedRunner({"go": (Asks(*uses), Concludes("Gone."))}),
            acts=(Answers("ask", approved=True),) if "ask" in effects else (),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
