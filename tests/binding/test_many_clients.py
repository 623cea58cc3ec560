"""Several programs at one session: each message has one turn, in order, and one answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

import pytest_asyncio
from attrs import evolve

from dex_agents_dex import AgentRuntime
from dex_agents_model.notes import DEFAULT_REJECTION_MESSAGE
from dex_agents_model.records import ApprovalDecision

from .conftest import Served
from .conversation import Conversation
from .flows import SCRIPTED, build_flows
from .script import Call, Reply, script

CLIENTS: Final = 5
SENDS: Final = 50


@pytest_asyncio.fixture
async def speakers(
    served: Served, conversation: Conversation
) -> AsyncIterator[tuple[Conversation, ...]]:
    """One session as several clients of the shared server see it."""
    async with AsyncExitStack() as running:
        runtimes = [
            await running.enter_async_context(
                AgentRuntime(
                    *build_flows(served.state_dir),
                    server_address=served.server_address,
                    serve=False,
                )
            )
            for _ in range(CLIENTS)
        ]
        yield tuple(evolve(conversation, sessions=each.sessions(SCRIPTED)) for each in runtimes)


async def test_sends__of_many_clients_at_once_have_a_turn_each_in_the_order_of_the_queue(
    conversation: Conversation, speakers: tuple[Conversation, ...]
) -> None:
    await conversation.start(Reply(gate="first", text="first"))
    await conversation.gate("first").wait_until_reached()

    sent = await asyncio.gather(
        *(speakers[number % CLIENTS].say(Reply(text=f"answer {number}")) for number in range(SENDS))
    )

    assert sent == [True] * SENDS
    queue = await conversation.sessions.list_queued_messages(conversation.session_id)
    queued = [message.text for message in queue.messages]
    assert sorted(queued) == sorted(
        script(Reply(text=f"answer {number}")) for number in range(SENDS)
    )
    assert conversation.calls() == [("model", 1)]

    conversation.gate("first").release()
    await conversation.end_of_turn(SENDS + 1)
    messages = await conversation.messages()
    assert [message.turn_id.number for message in messages] == [
        turn for turn in range(1, SENDS + 2) for _ in ("the user", "the model")
    ]
    assert [message.text for message in messages[2::2]] == queued
    assert conversation.calls() == [("model", 1)] * (SENDS + 1)


async def test_answers__of_two_clients_to_one_question_count_once(
    conversation: Conversation, speakers: tuple[Conversation, ...]
) -> None:
    await conversation.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await conversation.questions()

    yes, no = await asyncio.gather(
        speakers[0].answer(question, approved=True, resolved_by="ada"),
        speakers[1].answer(question, approved=False, resolved_by="bob"),
    )

    assert sorted((yes, no)) == [False, True]
    outcome = "done" if yes else DEFAULT_REJECTION_MESSAGE
    assert await conversation.answers() == [f"c: {outcome}", "an answer"]
    (decided,) = (await conversation.sessions.list_approvals(conversation.session_id)).approvals
    decision = ApprovalDecision.APPROVED if yes else ApprovalDecision.REJECTED
    assert (decided.decision, decided.resolved_by) == (decision, "ada" if yes else "bob")
    assert conversation.calls().count(("ask", 1)) == (1 if yes else 0)
