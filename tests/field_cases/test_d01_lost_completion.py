"""A tool did its work, and the word of it was lost with a Worker, with the engine, or with both.

A write without an idempotency key ran once, and the model is told that its outcome is unknown; so
did a tool of which nobody said what it does. An idempotent write may run again, under the same key
each time. A read may run again. No effect runs more often than its attempts.
"""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, ToolEffect, ToolPolicy
from dex_agents_model.policy import EFFECT_RULES, AgentSessionOptions
from dex_agents_model.records import MessageRole
from dex_agents_model.simulation import (
    Asks,
    Concludes,
    Fault,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
)
from dex_agents_model.steps import CallSingleAttemptTool, CallTool
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

UNKNOWN: Final = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
TOOLS: Final = ("look", "put", "pay", "poke", "ask")
"""Each effect, and a write that a person has approved."""


# --- on real processes -----------------------------------------------------------------------


async def _kill_worker(bench: Bench) -> None:
    bench.kill_worker()
    await bench.start_worker()


async def _kill_engine(bench: Bench) -> None:
    await bench.restart_engine()


async def _kill_both(bench: Bench) -> None:
    bench.kill_worker()
    await bench.restart_engine()
    await bench.start_worker()


async def _held_behind_their_bodies(bench: Bench, tools: tuple[str, ...]) -> Talk:
    """A session whose tools have done their work, and have told nobody."""
    talk = bench.talk()
    calls = tuple(Call(id=tool, tool=tool, late_gate=tool) for tool in tools)
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    if "ask" in tools:
        (question,) = await talk.questions()
        assert await talk.answer(question, approved=True)
    for tool in tools:
        await talk.gate(tool).wait_until_reached()
    return talk


async def test_tool__whose_completion_was_lost_ends_as_its_effect_says(bench: Bench) -> None:
    always = await _held_behind_their_bodies(bench, ("look", "put"))
    talks: list[Talk] = []
    for run, strike in enumerate((_kill_worker, _kill_engine, _kill_both), start=1):
        talks.append(await _held_behind_their_bodies(bench, TOOLS))
        for tool in ("look", "put"):
            await always.has_begun(tool, run)
        await strike(bench)
        for tool in TOOLS:
            talks[-1].gate(tool).release()

    for talk in talks:
        await _check_that_it_was_struck_once(talk)
    await _check_that_it_was_struck_always(always)


async def _check_that_it_was_struck_once(talk: Talk) -> None:
    await talk.end_of_turn()

    assert await talk.told() == {
        "look": "success: done",
        "put": "success: done",
        **dict.fromkeys(("pay", "poke", "ask"), UNKNOWN),
    }
    assert {tool: talk.keys(tool) for tool in TOOLS} == {
        "look": ["turn-1/look"] * 2,
        "put": ["turn-1/put"] * 2,
        **{tool: [f"turn-1/{tool}"] for tool in ("pay", "poke", "ask")},
    }


async def _check_that_it_was_struck_always(talk: Talk) -> None:
    await talk.end_of_turn()
    told = await talk.told()

    assert told["look"].startswith("failed: The tool call failed: ")
    assert told["put"] == UNKNOWN
    assert {tool: talk.keys(tool) for tool in ("look", "put")} == {
        "look": ["turn-1/look"] * 3,
        "put": ["turn-1/put"] * 3,
    }


# --- in the model ----------------------------------------------------------------------------

STEP_OF: Final = {
    effect: CallTool if rule.attempts > 1 else CallSingleAttemptTool
    for effect, rule in EFFECT_RULES.items()
}


def _struck(effect: ToolEffect, faults: list[Fault]) -> str | None:
    """What the model is told of one call whose attempts meet ``faults``, each behind the tool's work."""
    runner = ScriptedRunner({"go": (Asks(ToolUse("c", "act")), Concludes("Gone."))})
    policy = ToolPolicy(effect, requires_approval=False)
    options = AgentSessionOptions(tool_policies={"act": policy})
    world = SimulatedWorld(runner, options=options, first_message="go")
    for fault in faults:
        world.run_until_tool_starts("c")
        world.strike(fault, STEP_OF[effect])
    world.run()
    (told,) = (m.text for m in world.snapshot().messages if m.role is MessageRole.TOOL)
    return told


@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE_COMMIT, Fault.REDELIVERY])
def test_lost_completion__once_is_repeated_only_where_that_is_safe(
    effect: ToolEffect, fault: Fault
) -> None:
    told = _struck(effect, [fault])

    assert told == ("ok" if EFFECT_RULES[effect].attempts > 1 else OUTCOME_UNKNOWN_TOOL_RESULT)


@pytest.mark.parametrize("effect", [ToolEffect.READ, ToolEffect.IDEMPOTENT_WRITE])
def test_lost_completion__at_every_attempt_is_given_up(effect: ToolEffect) -> None:
    lost = [Fault.CRASH_BEFORE_COMMIT] * EFFECT_RULES[effect].attempts

    assert _struck(effect, lost[1:]) == "ok"
    told = _struck(effect, lost)

    assert told is not None
    assert (told == OUTCOME_UNKNOWN_TOOL_RESULT) == (effect is ToolEffect.IDEMPOTENT_WRITE)
    assert told.startswith("The tool call failed: ") == (effect is ToolEffect.READ)
