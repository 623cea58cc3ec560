"""What a client is told who waits for a turn."""

from __future__ import annotations

import json

from dex_agents_model.records import TurnFailed, TurnSucceeded

from .conversation import Conversation
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
