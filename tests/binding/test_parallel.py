"""Sessions and tools that may run at once do."""

from __future__ import annotations

from collections.abc import Callable

from .conversation import Conversation
from .flows import SCRIPTED
from .script import Call, Reply

TOOLS = ("first", "second", "third")


async def test_tools__of_two_sessions_all_run_at_once(
    new_conversation: Callable[[str], Conversation],
) -> None:
    conversations = [new_conversation(SCRIPTED), new_conversation(SCRIPTED)]
    calls = tuple(Call(id=name, tool="look", gate=name) for name in TOOLS)
    for conversation in conversations:
        await conversation.start(Reply(calls=calls), Reply(text="an answer"))

    for conversation in conversations:
        for name in TOOLS:
            await conversation.gate(name).wait_until_reached()
    for conversation in conversations:
        for name in TOOLS:
            conversation.gate(name).release()

    for conversation in conversations:
        assert await conversation.answers() == [
            "first: done",
            "second: done",
            "third: done",
            "an answer",
        ]


async def test_resume__waits_for_the_slowest_tool(conversation: Conversation) -> None:
    calls = (Call(id="quick", tool="look"), Call(id="slow", tool="look", gate="slow"))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    await conversation.when(
        "the end of the quick tool",
        lambda snapshot: [call.status for call in snapshot.tool_calls] == ["succeeded", "runnable"],
    )

    before = conversation.calls()
    conversation.gate("slow").release()

    assert await conversation.answers() == ["quick: done", "slow: done", "an answer"]
    assert [name for name, _ in before].count("model") == 1
    assert [name for name, _ in conversation.calls()].count("model") == 2
