"""Whatever IDs a provider gives to tool calls, each call is one of its own, and the provider is given them back.

Some count anew in every answer, give two calls one ID, or put into it what they want back: long
texts, with any sign in them. Each call runs once and gets its own result, a person decides each by
itself, and no turn names two calls alike; whatever dies. A later turn may use an ID again.
"""

from __future__ import annotations

from typing import Final

from dex_agents_model import AgentSnapshot, Succeeded, ToolCallId
from dex_agents_model.notes import CANCELLED_MESSAGE
from tests.adapter.openai_protocol import calls, text

from .bench import Bench, Talk

OPAQUE: Final = "call_1__thought__" + "Ab/+" * 400
"""What a provider reads again."""


def asked_ids(bench: Bench, talk: Talk) -> list[list[str]]:
    """The IDs of the calls in each request of the first turn, when no request has two alike."""
    found = [
        [call["id"] for message in request["messages"] for call in message.get("tool_calls", ())]
        for request in bench.asked(talk)
    ]
    assert all(len(set(ids)) == len(ids) for ids in found)
    return found


async def test_calls__with_one_id_in_one_answer_run_each_with_its_result(bench: Bench) -> None:
    both = calls(("pay", '{"number": 7}', "call_0"), ("pay", '{"number": 8}', "call_0"))
    talk = await bench.remote(both, text("Paid."))
    assert (await talk.answers())[-1] == "Paid."

    assert sorted(talk.keys("pay")) == ["turn-1/call_0", "turn-1/call_0-2"]
    assert await talk.told() == {
        "call_0": "success: order 7 is paid",
        "call_0-2": "success: order 8 is paid",
    }
    assert asked_ids(bench, talk) == [[], ["call_0", "call_0-2"]]


async def test_ids__that_are_counted_anew_in_every_answer_name_one_call_each(bench: Bench) -> None:
    talk = await bench.remote(
        calls(("pay", '{"number": 7}', "call_0")),
        calls(("pay", '{"number": 8}', "call_0")),
        text("Paid."),
    )
    await talk.end_of_turn()
    await bench.go_on(talk, calls(("pay", '{"number": 9}', "call_0")), text("Paid again."))

    assert talk.keys("pay") == ["turn-1/call_0", "turn-1/call_0-2", "turn-2/call_0"]
    assert await talk.told(1) == {
        "call_0": "success: order 7 is paid",
        "call_0-2": "success: order 8 is paid",
    }
    assert await talk.told(2) == {"call_0": "success: order 9 is paid"}
    assert asked_ids(bench, talk) == [[], ["call_0"], ["call_0", "call_0-2"]]


async def test_opaque_ids__come_back_byte_for_byte(bench: Bench) -> None:
    wanted = [OPAQUE, "../x", " ", "functions.pay:0", "\u00fc\U0001f600"]
    talk = await bench.remote(
        calls(*(("pay", '{"number": 7}', name) for name in wanted)), text("Paid.")
    )
    await talk.end_of_turn()

    standing = [ToolCallId.standing_for(name) for name in wanted]
    assert sorted(talk.keys("pay")) == sorted(f"turn-1/{name}" for name in standing)
    assert await talk.told() == dict.fromkeys(wanted, "success: order 7 is paid")
    assert asked_ids(bench, talk) == [[], wanted]


async def test_person__decides_each_of_two_calls_with_one_opaque_id(bench: Bench) -> None:
    both = calls(("ask", '{"number": 7}', OPAQUE), ("ask", '{"number": 8}', OPAQUE))
    talk = await bench.remote(both, text("One is back."))
    first, second = await talk.questions(2)
    assert first.interrupt_id != second.interrupt_id
    bench.kill_worker()
    await bench.start_worker()

    assert await talk.answer(second, approved=True)
    assert await talk.answer(first, approved=False, rejection_message="not that one")
    await talk.end_of_turn()

    assert talk.keys("ask") == [f"turn-1/{second.tool_call_id}"]
    assert await talk.told() == {
        OPAQUE: "denied: not that one",
        f"{OPAQUE}-2": "success: order 8 is back",
    }
    assert asked_ids(bench, talk) == [[], [OPAQUE, f"{OPAQUE}-2"]]


def _is_paid(snapshot: AgentSnapshot) -> bool:
    return any(isinstance(call, Succeeded) for call in snapshot.tool_calls)


async def test_turn__with_opaque_ids_that_is_cancelled_keeps_a_result_for_each(
    bench: Bench,
) -> None:
    both = calls(("pay", '{"number": 7}', "call_0"), ("ask", '{"number": 8}', OPAQUE))
    talk = await bench.remote(both)
    await talk.questions()
    await talk.when("that it is paid", _is_paid)
    assert await talk.sessions.cancel_turn(talk.session_id)
    await talk.end_of_turn()

    assert await talk.told() == {
        "call_0": "success: order 7 is paid",
        OPAQUE: f"failed: {CANCELLED_MESSAGE}",
    }
    await bench.go_on(talk, text("Here I am."))
    assert (await talk.answers(2))[-1] == "Here I am."
