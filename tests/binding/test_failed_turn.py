"""A model call that never succeeds ends its turn, tells why, and leaves the session usable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dex_agents_dex.testing import EXECUTE_FAILED_EVENT, read_step_history
from dex_agents_model import AgentEventType
from dex_agents_model.events import EventPayload, TurnFailedEvent
from dex_agents_model.records import TurnFailed

from .conftest import Served
from .conversation import Conversation
from .flows import SCRIPTED
from .script import Call, Reply, script
from .scripted_runner import UNBUILDABLE

ERROR = "ConnectionError: no model today"


async def test_turn__fails_after_three_model_calls_and_the_next_one_works(
    new_conversation: Callable[[str], Conversation], served: Served
) -> None:
    plain, with_tools = new_conversation(SCRIPTED), new_conversation(SCRIPTED)
    calls = (
        Call(id="p", tool="pay", output="paid"),
        Call(id="l", tool="look", error="no such row"),
    )
    await plain.start(Reply(crash="no model today"))
    await with_tools.start(Reply(calls=calls), Reply(crash="no model today"))

    assert list(await asyncio.gather(_failure(plain), _failure(with_tools))) == [
        TurnFailedEvent(ERROR),
        TurnFailedEvent(ERROR),
    ]
    assert plain.calls() == [("model", attempt) for attempt in (1, 2, 3)]
    assert await plain.answers() == []
    note = (
        "[Dex] The previous turn failed after these tool calls ran:\n"
        f"- pay {calls[0].arguments()} -> succeeded: paid\n"
        f"- look {calls[1].arguments()} -> failed: The tool call failed: no such row\n"
        "Do not repeat these tool calls unless the user asks again."
    )
    assert await with_tools.answers() == [note]
    history = await read_step_history(served.server_address, plain.session_id)
    assert [
        (entry.step_type, entry.final_attempt)
        for entry in history
        if entry.event_type == EXECUTE_FAILED_EVENT
    ] == [("RunModel", 3)]

    assert await with_tools.say(Reply(text="an answer"))
    assert await with_tools.answers(2) == ["an answer"]
    snapshot = await with_tools.end_of_turn(2)
    assert snapshot.state is not None
    assert snapshot.state.last_turn_error is None
    assert snapshot.tool_calls == ()


async def test_error__that_utf_8_cannot_hold_is_told_readably(conversation: Conversation) -> None:
    calls = (
        Call(id="l", tool="look", crash="lost \ud800"),
        Call(id="p", tool="pay", crash="\ud800"),
    )
    await conversation.start(Reply(calls=calls), Reply(crash="no \ud800"))

    snapshot = await conversation.end_of_turn()
    assert snapshot.state is not None
    assert snapshot.state.last_turn_error == "ConnectionError: no \ufffd"
    [note] = await conversation.texts(1)
    assert note is not None
    assert "failed: The tool call failed: ConnectionError: lost \ufffd\n" in note
    assert conversation.calls().count(("pay", 1)) == 1


async def _failure(conversation: Conversation) -> EventPayload:
    """The payload of turn_failed, when the snapshot tells the same error."""
    *_, failed = await conversation.events_through(AgentEventType.TURN_FAILED)
    snapshot = await conversation.sessions.get_agent_snapshot(conversation.session_id)
    assert snapshot.state is not None
    assert snapshot.state.last_turn_error == ERROR
    return failed.payload


async def test_message__that_the_runner_cannot_build_fails_its_turn_alone(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await sessions.start_session(session, f"{UNBUILDABLE}hello")

    lost = await sessions.wait_for_turn(session, "turn-1")
    said = await sessions.run_turn(session, script(Reply(text="an answer")))

    assert lost.end == TurnFailed("ValueError: too odd")
    assert [message.text for message in lost.messages] == [f"{UNBUILDABLE}hello"]
    assert said.answer == "an answer"
