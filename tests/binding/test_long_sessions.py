"""Turns and sessions that hold more than one answer of Dex may: they go on, end, and are read as any other."""

from __future__ import annotations

import pytest

from dex_agents_model import AgentSessionOptions
from dex_agents_model.records import TurnCancelled, TurnFailed, WaitingForUserMessage

from .conftest import Breakable
from .conversation import Conversation
from .script import Call, Reply, script

LONGEST = AgentSessionOptions().max_tool_output_bytes
MIB = 1024 * 1024


def calls(count: int, *, characters: int | None = None, tool: str = "look") -> tuple[Call, ...]:
    return tuple(Call(id=f"c{n}", tool=tool, output_characters=characters) for n in range(count))


HUGE = calls(25, characters=LONGEST)
"""Together more than 6 MiB of results."""


async def test_turn__whose_results_fit_no_frame_goes_on_and_keeps_them_all(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(calls=HUGE), Reply(text="an answer"))

    results = [f"{call.id}: {'o' * LONGEST}" for call in HUGE]
    assert await conversation.answers() == [*results, "an answer"]
    assert await conversation.say(Reply(text="it goes on"))
    assert await conversation.answers(2) == ["it goes on"]


async def test_turn__whose_results_fit_no_frame_can_fail(conversation: Conversation) -> None:
    await conversation.start(Reply(calls=HUGE), Reply(crash="the line is cut"))

    snapshot = await conversation.end_of_turn()
    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert snapshot.state.last_turn == TurnFailed("ConnectionError: the line is cut")
    (note,) = await conversation.texts(1)
    assert note is not None
    assert note.count("-> succeeded: ooo") == len(HUGE)
    assert await conversation.say(Reply(text="it goes on"))
    assert await conversation.answers(2) == ["it goes on"]


async def test_turn__whose_results_fit_no_frame_can_be_cancelled(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(calls=HUGE), Reply(gate="second"))
    await conversation.gate("second").wait_until_reached()

    assert await conversation.sessions.cancel_turn(conversation.session_id)
    snapshot = await conversation.end_of_turn()
    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert snapshot.state.last_turn == TurnCancelled()
    assert await conversation.say(Reply(text="it goes on"))
    assert await conversation.answers(2) == ["it goes on"]


async def test_turn__with_300_tool_calls_has_each_result_once_and_in_order(
    conversation: Conversation,
) -> None:
    many = calls(300)
    await conversation.start(Reply(calls=many), Reply(text="an answer"))

    assert await conversation.answers() == [*(f"{call.id}: done" for call in many), "an answer"]
    assert sorted(conversation.calls()) == sorted(
        [*[("look", 1)] * len(many), ("model", 1), ("model", 1)]
    )


async def test_run_turn__gives_all_messages_of_a_turn_that_no_snapshot_shows_whole(
    conversation: Conversation,
) -> None:
    many = calls(250)
    await conversation.start(Reply(text="begun"))
    await conversation.end_of_turn()

    outcome = await conversation.sessions.run_turn(
        conversation.session_id, script(Reply(calls=many), Reply(text="an answer"))
    )

    _, *told = [message.text for message in outcome.messages]
    assert told == [*(f"{call.id}: done" for call in many), "an answer"]
    assert [m.sequence for m in outcome.messages] == list(range(3, 3 + len(outcome.messages)))


async def test_run_turn__finds_a_turn_whose_events_were_lost_and_that_no_snapshot_shows_whole(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hears_nothing(*_: object, **__: object) -> None:
        await conversation.end_of_turn(2)

    many = calls(250)
    await conversation.start(Reply(text="begun"))
    await conversation.end_of_turn()
    monkeypatch.setattr(conversation.sessions, "read_agent_event", hears_nothing)

    outcome = await conversation.sessions.run_turn(
        conversation.session_id, script(Reply(calls=many), Reply(text="an answer"))
    )

    assert (outcome.turn_id, outcome.answer, len(outcome.messages)) == ("turn-2", "an answer", 252)


async def test_snapshot__shows_the_newest_calls_of_a_turn_that_has_many(
    conversation: Conversation,
) -> None:
    many = calls(150)
    await conversation.start(Reply(calls=many), Reply(gate="second", text="an answer"))
    await conversation.gate("second").wait_until_reached()

    snapshot = await conversation.sessions.get_agent_snapshot(conversation.session_id)
    shown = [record.tool_call_id for record in snapshot.tool_calls]
    assert shown == [call.id for call in many[-len(shown) :]]
    assert len(shown) > 50
    conversation.gate("second").release()
    assert (await conversation.answers())[-1] == "an answer"


async def test_steering__is_refused_when_more_would_wait_than_a_step_can_load(
    conversation: Conversation,
) -> None:
    held = Call(id="c", tool="look", gate="held")
    await conversation.start(Reply(calls=(held,)), Reply(text="an answer"))
    await conversation.gate("held").wait_until_reached()
    said = [f"{number} ".ljust(LONGEST // 2, ".") for number in range(12)]

    taken = [
        await conversation.sessions.steer_user_message(conversation.session_id, text)
        for text in said
    ]
    conversation.gate("held").release()

    assert taken == [True] * 8 + [False] * 4
    assert await conversation.answers() == ["c: done", *said[:8], "an answer"]


async def test_queue__is_full_when_more_would_wait_than_can_be_listed(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(gate="held", text="an answer"))
    await conversation.gate("held").wait_until_reached()
    long = script(Reply(text="it goes on")).ljust(LONGEST)

    sessions, session_id = conversation.sessions, conversation.session_id
    taken = [await sessions.send_user_message(session_id, long) for _ in range(10)]
    listed = await sessions.list_queued_messages(session_id)
    conversation.gate("held").release()

    assert taken == [True] * 8 + [False] * 2
    assert (len(listed.messages), listed.has_more) == (8, False)
    assert await conversation.answers(9) == ["it goes on"]


async def test_session__of_20_mib_takes_turns_and_is_read_by_a_worker_that_is_new_to_it(
    breakable: Breakable,
) -> None:
    conversation = breakable.conversation()
    worker = await breakable.stack.start_worker()
    await conversation.start(Reply(text_characters=2 * MIB))
    for number in range(1, 5):
        await conversation.end_of_turn(number)
        assert await conversation.say(Reply(text_characters=2 * MIB))
    await conversation.end_of_turn(5)
    worker.kill()

    await breakable.stack.start_worker()
    assert await conversation.say(Reply(text="it goes on"))
    snapshot = await conversation.end_of_turn(6)

    shown = snapshot.messages
    assert [message.sequence for message in shown] == [11, 12]  # the one before would be too much
    assert (shown[-1].text, snapshot.has_earlier_messages) == ("it goes on", True)
    stored = await conversation.messages()
    assert [message.sequence for message in stored] == list(range(1, 13))
    assert [len(message.text or "") for message in stored[1:11:2]] == [2 * MIB] * 5
