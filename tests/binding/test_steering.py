"""A person speaks to the turn that runs, or takes back what waits: it counts once, at the next moment it can."""

from __future__ import annotations

from dex_agents_model.notes import SUPERSEDED_MESSAGE

from .conversation import Conversation
from .script import Call, Reply, script


async def steer(conversation: Conversation, text: str, *, message_id: str | None = None) -> bool:
    return await conversation.sessions.steer_user_message(
        conversation.session_id, text, message_id=message_id
    )


async def test_steer__is_heard_at_the_next_model_call(conversation: Conversation) -> None:
    call = Call(id="c", tool="look", gate="tool")
    await conversation.start(Reply(calls=(call,)), Reply(text="an answer"))
    await conversation.gate("tool").wait_until_reached()

    for _ in range(2):  # the second time it is a repetition of the same message
        assert await steer(conversation, "be brief", message_id="m")
    conversation.gate("tool").release()

    assert await conversation.answers() == ["c: done", "be brief", "an answer"]


async def test_steer__answers_with_no_what_waits_for_a_person(conversation: Conversation) -> None:
    await conversation.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await conversation.questions()

    assert await steer(conversation, "rather not")

    assert await conversation.answers() == [f"c: {SUPERSEDED_MESSAGE}", "rather not", "an answer"]
    assert not await conversation.answer(question, approved=True)
    assert conversation.calls() == [("model", 1), ("model", 1)]


async def test_steer__that_meets_no_model_call_begins_the_next_turn_ahead_of_the_queue(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(gate="model", text="first"))
    await conversation.gate("model").wait_until_reached()

    assert await conversation.say(Reply(text="queued"))
    assert await steer(conversation, script(Reply(text="steered")))
    conversation.gate("model").release()

    await conversation.end_of_turn(3)
    assert [await conversation.texts(turn) for turn in (1, 2, 3)] == [
        ["first"],
        ["steered"],
        ["queued"],
    ]


async def test_steer__of_a_blank_message_is_refused(conversation: Conversation) -> None:
    await conversation.start(Reply(text="an answer"))

    assert not await steer(conversation, " \n")

    assert await conversation.answers() == ["an answer"]


async def test_withdraw__takes_a_message_out_of_the_queue_once(conversation: Conversation) -> None:
    sessions, session_id = conversation.sessions, conversation.session_id
    await conversation.start(Reply(gate="model", text="first"))
    await conversation.gate("model").wait_until_reached()
    for name in ("a", "b"):
        message = script(Reply(text=name))
        assert await sessions.send_user_message(session_id, message, message_id=name)

    assert await sessions.withdraw_user_message(session_id, "a")
    assert not await sessions.withdraw_user_message(session_id, "a")

    page = await sessions.list_queued_messages(session_id)
    assert [message.message_id for message in page.messages] == ["b"]
    conversation.gate("model").release()
    assert await conversation.answers(2) == ["b"]
    assert not await sessions.withdraw_user_message(session_id, "b")
