"""A model writes arguments that are no JSON object: no tool runs with a guess at them, and it is told once.

That call stays in the history with its correction, in a form that every provider takes: the next
requests of this turn and of all later ones are valid, whatever dies, and however the turn ends.
"""

from __future__ import annotations

from typing import Final

import pytest

from dex_agents_model.records import TurnFailed, WaitingForUserMessage
from tests.adapter.openai_protocol import calls, refuse_invalid, text
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

MALFORMED: Final = {
    "cut off": '{"number": 7',
    "cut off in a text": '{"number": "7',
    "something behind it": '{"number": 7} and so on',
    "other quotes": "{'number': 7}",
    "a list": "[7]",
    "a number": "7",
    "nothing": "null",
    "not a number": '{"number": NaN}',
    "out of range": '{"number": 1e999}',
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_provider__never_gets_malformed_arguments_back(bench: Bench, what: str) -> None:
    wrong = calls(("pay", MALFORMED[what], "c-wrong"))
    right = calls(("pay", '{"number": 7}', "c-right"))
    talk = await bench.remote(wrong, right, text("Paid."))
    assert (await talk.answers())[-1] == "Paid."
    await bench.go_on(talk, calls(("pay", '{"number": 8}', "c-next")), text("Paid again."))

    assert talk.keys("pay") == ["turn-1/c-right", "turn-2/c-next"]
    assert len(bench.asked(talk)) == 3
    assert {**await talk.told(1), **await talk.told(2)} == {
        "c-wrong": (await talk.told(1))["c-wrong"],
        "c-right": "success: order 7 is paid",
        "c-next": "success: order 8 is paid",
    }
    for request in bench.provider.requests:
        refuse_invalid(request["messages"])


@pytest.mark.parametrize("what", MALFORMED)
async def test_tool__without_a_schema_never_runs_with_malformed_arguments(
    bench: Bench, what: str
) -> None:
    """It would take anything, and it writes."""
    talk = bench.talk()
    wrong = Call(id="wrong", tool="put", raw=MALFORMED[what])
    right = Call(id="right", tool="put")
    await talk.start(Reply(calls=(wrong,)), Reply(calls=(right,)), Reply(text="an answer"))
    assert (await talk.answers())[-1] == "an answer"

    told = await talk.told()
    assert told.pop("wrong").startswith("retried: ")
    assert told == {"right": "success: done"}
    assert talk.keys("put") == ["turn-1/right"]
    assert await talk.say(Reply(text="another"))
    assert await talk.answers(2) == ["another"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_call__that_was_cut_off_before_its_arguments_is_no_call_without_any(
    bench: Bench, reason: str
) -> None:
    """The tool has a default for each argument: run without any, it would do far more than was asked for."""
    cut_off = calls(("pay", '{"number": 7}', "c-pay"), ("wipe", "", "c-cut"), finish_reason=reason)
    talk = await bench.remote(cut_off, calls(("wipe", '{"number": 7}', "c-whole")), text("Gone."))
    assert (await talk.answers())[-1] == "Gone."

    told = await talk.told()
    assert told.pop("c-cut").startswith("retried: ")
    assert told == {
        "c-pay": "success: order 7 is paid",
        "c-whole": "success: order 7 is gone",
    }
    assert (talk.keys("pay"), talk.keys("wipe")) == (["turn-1/c-pay"], ["turn-1/c-whole"])
    assert len(bench.asked(talk)) == 3


async def test_call__that_the_model_ended_without_arguments_has_none(bench: Bench) -> None:
    talk = await bench.remote(calls(("wipe", "", "c-wipe")), text("Gone."))
    await talk.end_of_turn()
    assert await talk.told() == {"c-wipe": "success: order of any number is gone"}
    bench.asked(talk)


async def test_person__is_asked_about_the_corrected_call_alone(bench: Bench) -> None:
    talk = bench.talk()
    wrong, right = Call(id="wrong", tool="ask", raw='{"id": "wrong"'), Call(id="right", tool="ask")
    await talk.start(Reply(calls=(wrong,)), Reply(calls=(right,)), Reply(text="an answer"))

    (question,) = await talk.questions()
    assert (question.tool_call_id, question.arguments) == ("right", right.arguments())
    assert await talk.answer(question, approved=True)

    await talk.end_of_turn()
    assert talk.keys("ask") == ["turn-1/right"]


async def _corrected_and_held(bench: Bench, last: Reply) -> Talk:
    """A turn with a malformed call beside a good one, whose corrected call is held."""
    talk = bench.talk()
    beside = Call(id="beside", tool="pay")
    wrong = Call(id="wrong", tool="put", raw="[7]")
    right = Call(id="right", tool="put", gate="right")
    await talk.start(Reply(calls=(beside, wrong)), Reply(calls=(right,)), last)
    await talk.gate("right").wait_until_reached()
    return talk


async def test_history__with_a_malformed_call_outlives_a_worker_a_failure_and_a_cancel(
    bench: Bench,
) -> None:
    answered = await _corrected_and_held(bench, Reply(text="an answer"))
    failed = await _corrected_and_held(bench, Reply(crash="no model today"))
    cancelled = await _corrected_and_held(bench, Reply(text="an answer"))

    bench.kill_worker()
    await bench.start_worker()
    assert await cancelled.sessions.cancel_turn(cancelled.session_id)
    for talk in (answered, failed):
        talk.gate("right").release()

    for talk in (answered, failed, cancelled):
        await talk.end_of_turn()
        assert await talk.say(Reply(text="another"))
        assert await talk.answers(2) == ["another"]
        told = await talk.told()
        assert told["wrong"].startswith("retried: ")
        assert told["beside"] == "success: done"
        assert talk.keys("pay") == ["turn-1/beside"]


async def test_turn__whose_calls_stay_malformed_fails_and_the_session_goes_on(bench: Bench) -> None:
    talk = bench.talk()
    wrong = tuple(Reply(calls=(Call(id=f"{n}", tool="pay", raw='{"id": "'),)) for n in range(9))
    await talk.start(*wrong)
    state = (await talk.end_of_turn()).state

    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnFailed)
    assert "exceeded max retries count of 1" in state.last_turn.error
    assert talk.keys("pay") == []
    assert len(talk.keys("model")) == 2
    assert await talk.say(Reply(text="another"))
    assert await talk.answers(2) == ["another"]
