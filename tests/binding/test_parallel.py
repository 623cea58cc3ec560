"""Sessions and tools that may run at once do."""

from __future__ import annotations

from collections.abc import Callable

from dex_agents_dex import AgentRuntime
from dex_agents_dex.testing import wait_until
from dex_agents_model.records import RunningTools

from .conftest import Breakable
from .conversation import Conversation
from .flows import SCRIPTED, build_flows
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


async def test_tools__that_are_more_than_a_worker_has_slots_take_turns_and_all_end(
    breakable: Breakable,
) -> None:
    slots, conversation = 8, breakable.conversation()
    many = tuple(Call(id=f"c{n}", tool="look", gate="all") for n in range(200))
    flows = build_flows(breakable.state_dir)
    server = breakable.stack.server_address
    async with AgentRuntime(*flows, server_address=server, worker_slots=slots):
        await conversation.start(Reply(calls=many), Reply(text="an answer"))
        running = [("model", 1), *[("look", 1)] * (slots - 1)]  # the last slot is for RPCs alone
        await wait_until("calls in all slots", lambda: conversation.calls() == running)
        asked = await conversation.sessions.get_agent_snapshot(conversation.session_id)
        at_once = conversation.calls()
        conversation.gate("all").release()

        assert (type(asked.state), at_once) == (RunningTools, running)
        assert await conversation.answers() == [*(f"{call.id}: done" for call in many), "an answer"]
    assert conversation.calls().count(("look", 1)) == 200
