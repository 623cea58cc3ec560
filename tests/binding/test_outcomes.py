"""What a client is told who waits for a turn."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from dex_agents_dex import MessageRefused, SessionNotFound, TurnNotFound, client
from dex_agents_dex.cli.desk import answering_at
from dex_agents_dex.dex_server import DexServer
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentSnapshot
from dex_agents_model.records import TurnFailed, TurnSucceeded

from .conftest import Breakable
from .conversation import Conversation
from .flows import SCRIPTED
from .script import Call, Reply, script


async def test_turn__that_ends_with_data_gives_it_to_whoever_waits(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.start_session(session)
    verdict = {"days": 3, "why": "\U0001f600", "items": [None, 1.5, True]}

    outcome = await sessions.run_turn(
        session,
        script(
            Reply(calls=(Call(id="c", tool="look"),)),
            Reply(text="late", output=json.dumps(verdict)),
        ),
    )

    assert (outcome.end, outcome.answer, outcome.output) == (TurnSucceeded(2), "late", verdict)
    assert await sessions.wait_for_turn(session) == outcome


async def test_turn__that_ends_with_text_or_fails_has_no_data(conversation: Conversation) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.start_session(session)

    said = await sessions.run_turn(session, script(Reply(text="an answer")))
    lost = await sessions.run_turn(session, script(Reply(crash="lost", output="{}")))

    assert (said.answer, said.output) == ("an answer", None)
    assert (lost.end, lost.answer, lost.output) == (
        TurnFailed("ConnectionError: lost"),
        None,
        None,
    )


async def test_wait__for_the_turn_of_a_session_that_nobody_serves_yet_waits_for_its_beginning(
    breakable: Breakable,
) -> None:
    conversation = breakable.conversation()
    await conversation.start(Reply(text="an answer"))
    sessions, session = conversation.sessions, conversation.session_id
    async with answering_at(DexServer(breakable.stack.server_address), [SCRIPTED]):
        waiting = asyncio.create_task(sessions.wait_for_turn(session))
        assert (await sessions.get_agent_snapshot(session)).state is None
        await breakable.stack.start_worker()
        outcome = await waiting

    assert (outcome.turn_id, outcome.answer) == ("turn-1", "an answer")


async def test_wait__ends_when_the_session_was_closed_before_it_began(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    await conversation.start(Reply(text="an answer"))
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.close_session(session)

    async with answering_at(DexServer(breakable.stack.server_address), [SCRIPTED]):
        with pytest.raises(SessionNotFound, match=r"is closed \(canceled\)"):
            async with asyncio.timeout(DEFAULT_TIMEOUT.total_seconds()):
                await sessions.wait_for_turn(session)


async def test_wait__for_a_turn_that_has_not_begun_says_so(conversation: Conversation) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.start_session(session)

    with pytest.raises(TurnNotFound, match=r"has begun 0 turns; there is no turn-1$"):
        await sessions.wait_for_turn(session)
    await conversation.say(Reply())
    await conversation.end_of_turn()
    with pytest.raises(TurnNotFound, match=r"has begun 1 turns; there is no turn-2$"):
        await sessions.wait_for_turn(session, "turn-2")


@pytest.fixture
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LONG_POLL", timedelta(seconds=1))


@pytest.mark.usefixtures("short_polls")
async def test_wait__ends_when_the_session_is_closed_in_the_middle_of_the_turn(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await conversation.start(Reply(gate="in the model", text="an answer"))
    await conversation.gate("in the model").wait_until_reached()
    waiting = asyncio.create_task(sessions.wait_for_turn(session))
    await sessions.close_session(session)

    with pytest.raises(SessionNotFound, match=r"is closed \(canceled\)"):
        await waiting


@pytest.mark.usefixtures("short_polls")
async def test_run__ends_when_its_message_is_withdrawn(conversation: Conversation) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await conversation.start(Reply(gate="in the model", text="an answer"))
    await conversation.gate("in the model").wait_until_reached()
    running = asyncio.create_task(sessions.run_turn(session, script(Reply())))

    def queued(snapshot: AgentSnapshot) -> bool:
        return snapshot.queued_message_count == 1

    await conversation.when("the message", queued)
    (message,) = (await sessions.list_queued_messages(session)).messages
    assert await sessions.withdraw_user_message(session, message.message_id)

    with pytest.raises(MessageRefused, match="was withdrawn before a turn took it"):
        await running
    conversation.gate("in the model").release()


async def test_wait__for_a_turn_that_no_snapshot_shows_any_more_does_not_guess_how_it_ended(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await conversation.start(Reply(text="an answer"))
    await conversation.end_of_turn()
    for _ in range(3):  # each answer is of most of what a snapshot may hold
        said = script(Reply(text_characters=900_000))
        assert (await sessions.run_turn(session, said)).end == TurnSucceeded(1)

    with pytest.raises(TurnNotFound, match=r"^turn-1 .* ended so long ago"):
        await sessions.wait_for_turn(session, "turn-1")
