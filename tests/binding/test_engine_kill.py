"""The engine is killed and comes back on its data: the session goes on, and no write runs twice unseen."""

from __future__ import annotations

import asyncio

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, AgentSnapshot

from .conftest import Breakable
from .script import Call, Reply


async def test_engine__that_is_killed_at_rest_loses_nothing(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(calls=(Call(id="c", tool="pay"),)), Reply(text="first"))
    before = await conversation.end_of_turn()

    await breakable.stack.restart_engine()

    after = await conversation.end_of_turn()
    assert _stored(after) == _stored(before)
    assert await conversation.say(Reply(text="second"))
    assert await conversation.answers(2) == ["second"]
    assert conversation.calls() == [("model", 1), ("pay", 1), ("model", 1), ("model", 1)]


async def test_engine__that_is_killed_keeps_the_queue(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(gate="model", text="first"))
    await conversation.gate("model").wait_until_reached()
    for text in ("second", "third"):
        assert await conversation.say(Reply(text=text))

    await breakable.stack.restart_engine()
    conversation.gate("model").release()

    await conversation.end_of_turn(3)
    assert [await conversation.texts(turn) for turn in (1, 2, 3)] == [
        ["first"],
        ["second"],
        ["third"],
    ]
    assert conversation.calls() == [("model", 1), ("model", 2), ("model", 1), ("model", 1)]


async def test_send__while_the_engine_is_away_arrives_once(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(text="first"))
    await conversation.end_of_turn()

    breakable.stack.kill_engine()
    sending = asyncio.create_task(conversation.say(Reply(text="second")))
    await breakable.stack.restart_engine()

    assert await sending
    assert await conversation.answers(2) == ["second"]
    assert conversation.calls() == [("model", 1), ("model", 1)]


async def test_engine__that_is_killed_lets_running_tools_end_as_their_effects_say(
    breakable: Breakable,
) -> None:
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    tools = ("look", "put", "pay")
    calls = tuple(Call(id=f"c-{tool}", tool=tool, gate=tool) for tool in tools)
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    for tool in tools:
        await conversation.gate(tool).wait_until_reached()

    await breakable.stack.restart_engine()
    for tool in tools:
        conversation.gate(tool).release()

    assert await conversation.answers() == [
        "c-look: done",
        "c-put: done",
        f"c-pay: {OUTCOME_UNKNOWN_TOOL_RESULT}",
        "an answer",
    ]
    assert sorted(conversation.calls()) == [
        *(("look", 1), ("look", 2)),
        *(("model", 1), ("model", 1)),
        ("pay", 1),
        *(("put", 1), ("put", 2)),
    ]
    assert conversation.keys("put") == ["turn-1/c-put", "turn-1/c-put"]


async def test_engine__that_is_killed_keeps_a_pending_approval(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await conversation.questions()

    await breakable.stack.restart_engine()

    assert await conversation.questions() == (question,)
    assert await conversation.answer(question, approved=True)
    assert await conversation.answers() == ["c: done", "an answer"]
    assert conversation.calls() == [("model", 1), ("ask", 1), ("model", 1)]


def _stored(snapshot: AgentSnapshot) -> tuple[object, ...]:
    """All of a snapshot that does not depend on when it was taken."""
    return (
        snapshot.state,
        snapshot.messages,
        snapshot.pending_interrupts,
        snapshot.tool_calls,
        snapshot.usage,
        snapshot.queued_message_count,
    )
