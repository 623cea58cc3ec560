"""What a session goes through when a process dies: each life runs up to the kill, and after it on to its end.

A life asserts what the effect table promises, which is the same whichever process died.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

from attrs import evolve

from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    AgentTestStack,
)
from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT

from .conversation import Conversation
from .script import Call, Reply

Life: TypeAlias = Callable[[Conversation, AgentTestStack], AsyncIterator[None]]


async def model_call(conversation: Conversation, stack: AgentTestStack) -> AsyncIterator[None]:
    """A model call that is cut off is made again; what was queued meanwhile has its turn."""
    await conversation.start(Reply(gate="model", text="first"))
    await conversation.gate("model").wait_until_reached()
    for text in ("second", "third"):
        assert await conversation.say(Reply(text=text))

    yield
    conversation.gate("model").release()

    await conversation.end_of_turn(3)
    assert [await conversation.texts(turn) for turn in (1, 2, 3)] == [
        ["first"],
        ["second"],
        ["third"],
    ]
    assert conversation.calls() == [("model", 1), ("model", 2), ("model", 1), ("model", 1)]
    assert await executions(conversation, stack) == [
        ("AwaitUserMessage", EXECUTE_COMPLETED_EVENT, 1),
        ("AwaitUserMessage", EXECUTE_COMPLETED_EVENT, 1),
        ("RunModel", EXECUTE_COMPLETED_EVENT, 1),
        ("RunModel", EXECUTE_COMPLETED_EVENT, 1),
        ("RunModel", EXECUTE_COMPLETED_EVENT, 2),
        ("StartAgentSession", EXECUTE_COMPLETED_EVENT, 1),
    ]


async def tools(conversation: Conversation, stack: AgentTestStack) -> AsyncIterator[None]:
    """Tools that are cut off end as their effects say."""
    names = ("look", "put", "pay", "poke")
    calls = tuple(Call(id=f"c-{name}", tool=name, gate=name) for name in names)
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    for name in names:
        await conversation.gate(name).wait_until_reached()

    yield
    for name in names:
        conversation.gate(name).release()

    assert await conversation.answers() == [
        "c-look: done",
        "c-put: done",
        f"c-pay: {OUTCOME_UNKNOWN_TOOL_RESULT}",
        f"c-poke: {OUTCOME_UNKNOWN_TOOL_RESULT}",
        "an answer",
    ]
    assert sorted(conversation.calls()) == [
        *(("look", 1), ("look", 2)),
        *(("model", 1), ("model", 1)),
        ("pay", 1),
        ("poke", 1),
        *(("put", 1), ("put", 2)),
    ]
    assert conversation.keys("put") == ["turn-1/c-put", "turn-1/c-put"]
    assert await executions(conversation, stack) == [
        ("CallSingleAttemptTool", EXECUTE_FAILED_EVENT, 1),
        ("CallSingleAttemptTool", EXECUTE_FAILED_EVENT, 1),
        ("CallTool", EXECUTE_COMPLETED_EVENT, 2),
        ("CallTool", EXECUTE_COMPLETED_EVENT, 2),
        ("RecordToolOutcomeUnknown", EXECUTE_COMPLETED_EVENT, 1),
        ("RecordToolOutcomeUnknown", EXECUTE_COMPLETED_EVENT, 1),
        ("ResumeTurn", EXECUTE_COMPLETED_EVENT, 1),
        ("RunModel", EXECUTE_COMPLETED_EVENT, 1),
        ("RunModel", EXECUTE_COMPLETED_EVENT, 1),
        ("StartAgentSession", EXECUTE_COMPLETED_EVENT, 1),
    ]


async def approval(conversation: Conversation, stack: AgentTestStack) -> AsyncIterator[None]:
    """A question to a person waits on, and its tool runs once."""
    await conversation.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await conversation.questions()

    yield

    assert await conversation.questions() == (question,)
    assert conversation.calls() == [("model", 1)]
    assert await conversation.answer(question, approved=True)
    assert await conversation.answers() == ["c: done", "an answer"]
    assert conversation.calls() == [("model", 1), ("ask", 1), ("model", 1)]


async def parallel_tools(conversation: Conversation, stack: AgentTestStack) -> AsyncIterator[None]:
    """A tool that had ended does not run again because its neighbour was cut off."""
    calls = (Call(id="first", tool="pay"), Call(id="second", tool="look", gate="second"))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    await conversation.gate("second").wait_until_reached()
    await conversation.when(
        "the end of the first tool",
        lambda snapshot: [call.status for call in snapshot.tool_calls] == ["succeeded", "runnable"],
    )

    yield
    conversation.gate("second").release()

    assert await conversation.answers() == ["first: done", "second: done", "an answer"]
    assert sorted(conversation.calls()) == [
        *(("look", 1), ("look", 2)),
        *(("model", 1), ("model", 1)),
        ("pay", 1),
    ]


async def rest(conversation: Conversation, stack: AgentTestStack) -> AsyncIterator[None]:
    """A session at rest is what it was, and has its next turn."""
    await conversation.start(Reply(calls=(Call(id="c", tool="pay"),)), Reply(text="first"))
    before = await conversation.end_of_turn()
    token = before.event_token

    yield

    after = await conversation.end_of_turn()
    assert evolve(after, observed_at=before.observed_at, event_token=token) == before
    assert await conversation.say(Reply(text="second"))
    assert await conversation.answers(2) == ["second"]
    assert conversation.calls() == [("model", 1), ("pay", 1), ("model", 1), ("model", 1)]


LIVES: Final[tuple[Life, ...]] = (model_call, tools, approval, parallel_tools, rest)


async def executions(
    conversation: Conversation, stack: AgentTestStack
) -> list[tuple[str, str, int]]:
    """What was executed: Step, whether it completed or failed, and its last attempt; sorted."""
    return sorted(
        (entry.step_type, entry.event_type, entry.final_attempt)
        for entry in await stack.read_step_history(conversation.session_id)
        if entry.event_type in (EXECUTE_COMPLETED_EVENT, EXECUTE_FAILED_EVENT)
    )
