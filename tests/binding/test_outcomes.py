"""What a client is told who waits for a turn."""

from __future__ import annotations

import asyncio
import json

import pytest

from dex_agents_dex import TurnNotFound
from dex_agents_dex.cli.desk import answering_at
from dex_agents_dex.dex_server import DexServer
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


async def test_wait__for_a_turn_that_has_not_begun_says_so(conversation: Conversation) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.start_session(session)

    with pytest.raises(TurnNotFound, match=r"has begun 0 turns; there is no turn-1$"):
        await sessions.wait_for_turn(session)
    await conversation.say(Reply())
    await conversation.end_of_turn()
    with pytest.raises(TurnNotFound, match=r"has begun 1 turns; there is no turn-2$"):
        await sessions.wait_for_turn(session, "turn-2")
