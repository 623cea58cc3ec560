"""A model that calls a tool wrongly, or gives a result of a wrong form, is told so and asked again.

No tool runs with arguments that do not fit it, and the engine retries nothing for it: a correction
is one more request of the same attempt. Corrections are bounded; when they are spent the turn fails
at once, says why, counts what it used, and the session goes on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dex_agents_model import AgentEventType, AgentSessionOptions, ToolEffect, ToolPolicy
from dex_agents_model.events import ModelCallFailedEvent, TurnFailedEvent
from dex_agents_model.records import TurnFailed, WaitingForUserMessage
from dex_agents_model.simulation import (
    Answers,
    Asks,
    GivesUp,
    Says,
    Scenario,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
    explore,
)
from tests.adapter.openai_protocol import USED_BY_ONE_CALL, calls, text

from .bench import Bench, Talk
from .remote import TYPED

RIGHT = calls(("look", '{"number": 7}', "c-right"))
WRONG = {
    "a wrong type": ("look", '{"number": "seven"}', "valid integer"),
    "a missing argument": ("look", "{}", "Field required"),
    "one argument too many": (
        "look",
        '{"number": 7, "colour": "red"}',
        "Extra inputs are not permitted",
    ),
    "no object": ("look", "[7]", "object"),
    "an unknown tool": ("nobody", '{"number": 7}', "Unknown tool name: 'nobody'"),
}


async def error_of(talk: Talk, turn: int = 1) -> str:
    """Why the latest turn failed, in the state and in its one terminal event alike."""
    state = (await talk.end_of_turn(turn)).state
    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnFailed)
    events = await talk.events_through(AgentEventType.TURN_FAILED)
    assert events[-1].payload == TurnFailedEvent(state.last_turn.error)
    assert not any(isinstance(event.payload, ModelCallFailedEvent) for event in events)
    return state.last_turn.error


def results_in(request: dict[str, Any]) -> dict[str, str]:
    """What the provider was told of each tool call, by its ID."""
    messages = request["messages"]
    return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}


@pytest.mark.parametrize("what", WRONG)
async def test_call__that_does_not_fit_its_tool_is_corrected_and_never_run(
    bench: Bench, what: str
) -> None:
    tool, arguments, words = WRONG[what]
    talk = await bench.remote(calls((tool, arguments, "c-wrong")), RIGHT, text("It is here."))

    assert (await talk.answers())[-1] == "It is here."
    assert talk.keys("look") == ["turn-1/c-right"]
    _, corrected, last = bench.asked(talk)
    assert words in results_in(corrected)["c-wrong"]
    assert results_in(last)["c-right"] == "order 7 is here"
    assert await bench.attempts(talk) == {
        "StartAgentSession": [1],
        "RunModel": [1, 1],
        "CallTool": [1],
        "ResumeTurn": [1],
    }
    assert (await talk.end_of_turn()).usage == (
        USED_BY_ONE_CALL + USED_BY_ONE_CALL + USED_BY_ONE_CALL
    )


async def test_write__beside_a_call_that_does_not_fit_runs_once(bench: Bench) -> None:
    both = calls(("pay", '{"number": 7}', "c-pay"), ("look", '{"number": "x"}', "c-wrong"))
    talk = await bench.remote(both, RIGHT, text("Paid."))

    assert (await talk.answers())[-1] == "Paid."
    assert talk.keys("pay") == ["turn-1/c-pay"]
    assert talk.keys("look") == ["turn-1/c-right"]
    _, told, _ = bench.asked(talk)
    assert results_in(told)["c-pay"] == "order 7 is paid"
    assert "valid integer" in results_in(told)["c-wrong"]
    assert set((await bench.attempts(talk))["RunModel"]) == {1}


@pytest.mark.parametrize("what", WRONG)
async def test_turn__whose_calls_never_fit_fails_at_once_and_the_session_goes_on(
    bench: Bench, what: str
) -> None:
    tool, arguments, _ = WRONG[what]
    wrong = (calls((tool, arguments, f"c-{number}")) for number in range(9))
    talk = await bench.remote(*wrong)

    assert f"Tool '{tool}' exceeded max retries count of 1" in await error_of(talk)
    assert len(bench.asked(talk)) == 2
    assert (await bench.attempts(talk))["RunModel"] == [1]
    assert talk.keys("look") == []
    assert (await talk.end_of_turn()).usage == USED_BY_ONE_CALL + USED_BY_ONE_CALL

    await bench.go_on(talk, text("Hello again."))
    assert await talk.texts(2) == ["Hello again."]


BAD_RESULTS = {
    "a result without a field": calls(("final_result", '{"verdict": "fine"}', "c-result")),
    "a result of a wrong type": calls(
        ("final_result", '{"verdict": "fine", "sure": "perhaps"}', "c-result")
    ),
    "words in place of a result": text("It is fine."),
    "nothing at all": text(),
}
GOOD_RESULT = calls(("final_result", '{"verdict": "fine", "sure": true}', "c-good"))


@pytest.mark.parametrize("what", BAD_RESULTS)
async def test_result__of_a_wrong_form_is_corrected_once(bench: Bench, what: str) -> None:
    talk = await bench.remote(BAD_RESULTS[what], GOOD_RESULT, flow_type=TYPED)

    await talk.end_of_turn()
    assert await talk.history()
    [*_, result, _] = await talk.messages()
    assert json.loads(json.loads(result.framework_item)[0]["parts"][0]["args"]) == {
        "verdict": "fine",
        "sure": True,
    }
    assert len(bench.asked(talk)) == 2
    assert (await bench.attempts(talk))["RunModel"] == [1]


@pytest.mark.parametrize("what", BAD_RESULTS)
async def test_turn__whose_result_is_of_a_wrong_form_twice_fails_at_once(
    bench: Bench, what: str
) -> None:
    talk = await bench.remote(*[BAD_RESULTS[what]] * 9, flow_type=TYPED)

    assert "Exceeded maximum output retries (1)" in await error_of(talk)
    assert len(bench.asked(talk)) == 2
    assert (await bench.attempts(talk))["RunModel"] == [1]
    assert (await talk.end_of_turn()).usage == USED_BY_ONE_CALL + USED_BY_ONE_CALL


async def test_turn__that_is_given_up_after_a_write_tells_the_next_one_what_ran(
    bench: Bench,
) -> None:
    wrong = (calls(("nobody", "{}", f"c-{number}")) for number in range(9))
    talk = await bench.remote(calls(("pay", '{"number": 7}', "c-pay")), *wrong)

    assert "Tool 'nobody' exceeded max retries" in await error_of(talk)
    assert talk.keys("pay") == ["turn-1/c-pay"]
    assert len(bench.asked(talk)) == 3

    await bench.go_on(talk, text("It is paid."))
    [request] = bench.provider.asked(f"{talk.session_id}, turn 2")
    assert results_in(request) == {"c-pay": "order 7 is paid"}
    assert talk.keys("pay") == ["turn-1/c-pay"]


# --- in the model: a turn that is given up, at every point and with every fault --------------------

OPTIONS = AgentSessionOptions(
    tool_policies={
        "look": ToolPolicy(ToolEffect.READ),
        "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
        "ask": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    }
)


@pytest.mark.parametrize("runner", [ScriptedRunner, ThoroughRunner])
@pytest.mark.parametrize("tool", ["pay", "ask"])
def test_turn__that_is_given_up_keeps_every_promise_in_every_interleaving(
    runner: type[ScriptedRunner], tool: str
) -> None:
    seen = explore(
        Scenario(
            name="given up",
            about="the model asks for a tool, and then gives nothing that can be used",
            is_timed=False,
            first_message="go",
            options=OPTIONS,
            runner=runner({"go": (Asks(ToolUse("c", tool)), GivesUp())}),
            acts=(Says("again"), *([Answers("c")] if tool == "ask" else [])),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
