"""A turn is cancelled: its work stops, what may have happened is told, and the session goes on."""

from __future__ import annotations

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, AgentEventType
from dex_agents_model.notes import CANCELLED_MESSAGE
from dex_agents_model.records import TurnCancelled, WaitingForUserMessage

from .conversation import Conversation
from .script import Call, Reply

TOOLS = ("look", "put", "pay")


async def cancel(conversation: Conversation, turn_id: str | None = None) -> bool:
    return await conversation.sessions.cancel_turn(conversation.session_id, turn_id)


async def test_cancel__ends_a_model_call(conversation: Conversation) -> None:
    await conversation.start(Reply(gate="model", text="never said"))
    await conversation.gate("model").wait_until_reached()

    assert await cancel(conversation)

    await conversation.gate("model, cut off").wait_until_reached()
    snapshot = await conversation.end_of_turn()
    assert snapshot.state == WaitingForUserMessage(1, 1, TurnCancelled())
    assert await conversation.texts(1) == []
    *_, last = await conversation.events_through(AgentEventType.TURN_CANCELLED)
    assert last.turn_id == "turn-1"
    assert await conversation.say(Reply(text="an answer"))
    assert await conversation.answers(2) == ["an answer"]
    assert conversation.calls() == [("model", 1), ("model", 1)]


async def test_cancel__tells_of_each_tool_whether_it_may_have_run(
    conversation: Conversation,
) -> None:
    running = tuple(Call(id=f"c-{tool}", tool=tool, gate=tool) for tool in TOOLS)
    done, asked = Call(id="c-done", tool="look"), Call(id="c-ask", tool="ask")
    calls = (*running, done, asked)
    await conversation.start(Reply(calls=calls), Reply(text="never said"))
    for tool in TOOLS:
        await conversation.gate(tool).wait_until_reached()
    (question,) = await conversation.questions()
    await conversation.when(
        "the end of one tool", lambda snapshot: snapshot.tool_calls[3].status == "succeeded"
    )

    assert await cancel(conversation)

    unknown = f"outcome_unknown: {OUTCOME_UNKNOWN_TOOL_RESULT}"
    told = (f"cancelled: {CANCELLED_MESSAGE}", unknown, unknown, "succeeded: done")
    outcomes = (*told, f"cancelled: {CANCELLED_MESSAGE}")
    lines = (
        f"- {call.tool} {call.arguments()} -> {outcome}"
        for call, outcome in zip(calls, outcomes, strict=True)
    )
    note = "\n".join(
        (
            "[Dex] The previous turn was cancelled after these tool calls ran:",
            *lines,
            "Do not repeat these tool calls unless the user asks again.",
        )
    )
    assert await conversation.answers() == [note]
    assert not await conversation.answer(question, approved=True)

    for tool in TOOLS:
        await conversation.gate(f"{tool}, cut off").wait_until_reached()
    assert await conversation.say(Reply(text="an answer"))
    assert await conversation.answers(2) == ["an answer"]
    ran = sorted(conversation.calls())
    assert ran == [("look", 1), ("look", 1), ("model", 1), ("model", 1), ("pay", 1), ("put", 1)]


async def test_cancel__of_a_turn_that_does_not_run_is_refused(conversation: Conversation) -> None:
    await conversation.start(Reply(text="an answer"))
    before = await conversation.end_of_turn()

    assert not await cancel(conversation)
    assert not await cancel(conversation, "turn-1")
    assert not await cancel(conversation, "turn-2")

    after = await conversation.end_of_turn()
    assert (after.state, after.messages) == (before.state, before.messages)
