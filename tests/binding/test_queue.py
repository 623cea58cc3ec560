"""Starting a session and speaking to it: each message counts once, in order, whatever is repeated."""

from __future__ import annotations

import pytest

from dex_agents_dex import AgentRuntime, MessageRefused, SessionAlreadyExists
from dex_agents_model.records import WaitingForUserMessage

from .conversation import Conversation
from .flows import IMPATIENT
from .script import Reply, script


async def test_start__without_a_message_starts_no_turn(conversation: Conversation) -> None:
    await conversation.sessions.start_session(conversation.session_id)

    snapshot = await conversation.end_of_turn(0)
    assert (snapshot.state, snapshot.messages) == (WaitingForUserMessage(), ())
    assert await conversation.say(Reply(text="an answer"))
    assert await conversation.answers() == ["an answer"]


async def test_start__repeated_is_one_session(conversation: Conversation) -> None:
    message = script(Reply(text="an answer"))
    first = await conversation.sessions.start_session(conversation.session_id, message)
    assert await conversation.answers() == ["an answer"]

    assert await conversation.sessions.start_session(conversation.session_id, message) == first

    assert await conversation.say(Reply(text="another"))
    assert await conversation.answers(2) == ["another"]
    assert conversation.calls() == [("model", 1), ("model", 1)]


async def test_start__with_a_blank_message_is_the_same_as_without_one(
    conversation: Conversation,
) -> None:
    first = await conversation.sessions.start_session(conversation.session_id)

    assert await conversation.sessions.start_session(conversation.session_id, " ") == first


@pytest.mark.parametrize("message", [script(Reply(text="other")), "", None])
async def test_start__of_the_same_session_otherwise_is_refused(
    conversation: Conversation, message: str | None
) -> None:
    await conversation.start(Reply(text="an answer"))

    with pytest.raises(SessionAlreadyExists, match=f"session '{conversation.session_id}' exists"):
        await conversation.sessions.start_session(conversation.session_id, message)

    assert await conversation.answers() == ["an answer"]


async def test_start__of_the_same_session_by_another_flow_is_refused(
    conversation: Conversation, runtime: AgentRuntime
) -> None:
    message = script(Reply(text="an answer"))
    await conversation.sessions.start_session(conversation.session_id, message)

    with pytest.raises(SessionAlreadyExists):
        await runtime.sessions(IMPATIENT).start_session(conversation.session_id, message)


async def test_send__repeated_with_its_id_queues_once(conversation: Conversation) -> None:
    await conversation.start(Reply(gate="model", text="first"))
    await conversation.gate("model").wait_until_reached()
    sessions, session_id = conversation.sessions, conversation.session_id
    second, third = script(Reply(text="second")), script(Reply(text="third"))

    for _ in range(3):
        assert await sessions.send_user_message(session_id, second, message_id="m-2")
    assert await sessions.send_user_message(session_id, third, message_id="m-3")

    queued = await sessions.get_agent_snapshot(session_id)
    assert queued.queued_message_count == 2
    conversation.gate("model").release()
    assert await conversation.answers(3) == ["third"]
    assert [await conversation.texts(turn) for turn in (1, 2)] == [["first"], ["second"]]


@pytest.mark.parametrize("text", ["", " \n"])
async def test_send__of_a_blank_message_is_refused(conversation: Conversation, text: str) -> None:
    await conversation.start(Reply())
    await conversation.end_of_turn()

    assert not await conversation.sessions.send_user_message(conversation.session_id, text)

    snapshot = await conversation.end_of_turn()
    assert snapshot.queued_message_count == 0


async def test_run_turn__says_that_too_much_waits(conversation: Conversation) -> None:
    await conversation.start(Reply(gate="model", text="an answer"))
    await conversation.gate("model").wait_until_reached()
    sessions, session_id, large = conversation.sessions, conversation.session_id, "x" * 256 * 1024
    for _ in range(8):
        assert await sessions.send_user_message(session_id, large)

    with pytest.raises(MessageRefused, match=f"session '{session_id}': too much waits"):
        await sessions.run_turn(session_id, large)

    await sessions.close_session(session_id)
    conversation.gate("model").release()
