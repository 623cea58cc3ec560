"""A Worker is killed: what was running ends as its effect says, and nothing that ended runs again."""

from __future__ import annotations

from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    StepHistoryEntry,
)
from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT

from .conftest import Breakable
from .script import Call, Reply


def executions(history: tuple[StepHistoryEntry, ...]) -> list[tuple[str, str, int]]:
    """What ended: Step, whether it completed or failed, and its last attempt; sorted."""
    return sorted(
        (entry.step_type, entry.event_type, entry.final_attempt)
        for entry in history
        if entry.event_type in (EXECUTE_COMPLETED_EVENT, EXECUTE_FAILED_EVENT)
    )


async def test_model_call__that_is_killed_is_made_again(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    worker = await breakable.stack.start_worker()
    await conversation.start(Reply(gate="model", text="an answer"))
    await conversation.gate("model").wait_until_reached()

    worker.kill()
    conversation.gate("model").release()
    await breakable.stack.start_worker()

    assert await conversation.answers() == ["an answer"]
    assert conversation.calls() == [("model", 1), ("model", 2)]
    assert executions(await breakable.stack.read_step_history(conversation.session_id)) == [
        ("RunModel", EXECUTE_COMPLETED_EVENT, 2),
        ("StartAgentSession", EXECUTE_COMPLETED_EVENT, 1),
    ]


async def test_tools__that_are_killed_end_as_their_effects_say(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    worker = await breakable.stack.start_worker()
    tools = ("look", "put", "pay", "poke")
    calls = tuple(Call(id=f"c-{tool}", tool=tool, gate=tool) for tool in tools)
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    for tool in tools:
        await conversation.gate(tool).wait_until_reached()

    worker.kill()
    for tool in tools:
        conversation.gate(tool).release()
    await breakable.stack.start_worker()

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
    assert executions(await breakable.stack.read_step_history(conversation.session_id)) == [
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


async def test_approval__waits_on_over_a_kill(breakable: Breakable) -> None:
    conversation = breakable.conversation()
    worker = await breakable.stack.start_worker()
    await conversation.start(Reply(calls=(Call(id="c", tool="ask"),)), Reply(text="an answer"))
    (question,) = await conversation.questions()

    worker.kill()
    await breakable.stack.start_worker()

    assert await conversation.questions() == (question,)
    assert conversation.calls() == [("model", 1)]
    assert await conversation.answer(question, approved=True)
    assert await conversation.answers() == ["c: done", "an answer"]
    assert conversation.calls() == [("model", 1), ("ask", 1), ("model", 1)]


async def test_parallel_tool__that_ended_before_the_kill_does_not_run_again(
    breakable: Breakable,
) -> None:
    conversation = breakable.conversation()
    worker = await breakable.stack.start_worker()
    calls = (Call(id="first", tool="pay"), Call(id="second", tool="look", gate="second"))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    await conversation.gate("second").wait_until_reached()
    await conversation.when(
        "the end of the first tool",
        lambda snapshot: [call.status for call in snapshot.tool_calls] == ["succeeded", "runnable"],
    )

    worker.kill()
    conversation.gate("second").release()
    await breakable.stack.start_worker()

    assert await conversation.answers() == ["first: done", "second: done", "an answer"]
    assert sorted(conversation.calls()) == [
        *(("look", 1), ("look", 2)),
        *(("model", 1), ("model", 1)),
        ("pay", 1),
    ]
