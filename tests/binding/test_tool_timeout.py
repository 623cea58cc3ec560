"""A tool whose policy bounds its attempts is cut off in time, and its call ends as its effect says."""

from __future__ import annotations

from dex_agents_model.calls import OutcomeUnknown

from .conversation import Conversation
from .script import Call, Reply


async def test_tool__that_takes_longer_than_its_policy_allows_is_cut_off(
    conversation: Conversation,
) -> None:
    calls = (
        Call(id="slow", tool="hurry", gate="slow"),
        Call(id="patient", tool="look", gate="patient"),
    )
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    (question,) = await conversation.questions()
    assert await conversation.answer(question, approved=True)

    await conversation.gate("slow, cut off").wait_until_reached()
    snapshot = await conversation.when(
        "the end of the slow tool",
        lambda seen: seen if isinstance(seen.tool_calls[0], OutcomeUnknown) else None,
    )
    conversation.gate("patient").release()

    assert [call.call.timeout_seconds for call in snapshot.tool_calls] == [5, None]
    slow, *others = await conversation.answers()
    assert others == ["patient: done", "an answer"]
    assert slow is not None
    assert slow.startswith("slow: ")
    ran = sorted(conversation.calls())
    assert ran == [("hurry", 1), ("look", 1), ("model", 1), ("model", 1)]
