"""Names of an unusual form: each works from end to end, or is refused at the door in so many words."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest

from dex_agents_model import AgentEventType, ToolCallId, TurnId
from dex_agents_model.events import TextDelta, ToolCallFinished
from dex_agents_model.ids import SessionId, idempotency_key
from dex_agents_model.records import TurnCancelled, WaitingForUserMessage

from .conftest import Served
from .conversation import Conversation
from .script import Call, Reply

UNUSUAL: Final = {
    "unicode": "Заказ № 7 ❄ 👩‍👩‍👧 שלום",
    "combined": "e\u0301 is not \u00e9",
    "spaces": "  two  at  each  end  ",
    "quotes": "'single' \"double\" `back`",
    "escapes": "back\\slash %2F %00 \\n {x} *?",
    "of SQL": "'; DROP TABLE flows; --",
    "of a shell": "$(reboot) & | > < ! ~ #",
    "dashes": "--session",
    "dot": ".",
    "dots": "..",
    "longest": "é" * 255 + "👩",
}
"""Both of sessions, without what no session's name may hold, and of tool calls."""
SESSION_IDS: Final = {kind: name.replace("$", "€") for kind, name in UNUSUAL.items()}
CALL_IDS: Final = {
    **UNUSUAL,
    "as Moonshot names them": "functions.look:0",
    "as if of a part": "c.arguments.000000",
    "as if of a turn": "turn-1.c",
    "lines": "one\r\ntwo\tthree",
    "control characters": "\x1b[31m\x07\x7f",
    "slashes": "a/b",
    "blank": " \t",
    "long": "c" * 1_000,
    "very long": "c" * 100_000,
}
TOOL_NAMES: Final = {
    **UNUSUAL,
    "lines": "one\r\ntwo\tthree",
    "control characters": "\x1b[31m\x07\x7f",
    "slashes": "files/read/all",
}


@pytest.fixture
def named(
    conversation: Conversation, served: Served, request: pytest.FixtureRequest
) -> Conversation:
    """A session of the name that the test is given, not started yet."""
    return Conversation(conversation.sessions, request.param, served.state_dir)


@pytest.mark.parametrize("named", SESSION_IDS.values(), ids=SESSION_IDS, indirect=True)
async def test_session_id__of_any_characters_is_one_session_everywhere(named: Conversation) -> None:
    calls = (Call(id="put", tool="put", padding_characters=5_000), Call(id="ask", tool="ask"))
    await named.start(Reply(deltas=("as it comes",), calls=calls), Reply(text="an answer"))
    (question,) = await named.questions()
    assert await named.sessions.steer_user_message(
        named.session_id, "and this", rejects_pending_approvals=False
    )
    assert await named.answer(question, approved=True)

    assert await named.answers() == ["put: done", "ask: done", "and this", "an answer"]
    expected = {
        idempotency_key(SessionId(named.session_id), TurnId("turn-1"), ToolCallId(call.id))
        for call in calls
    }
    assert {
        f"{named.session_id}/{key}" for name in ("put", "ask") for key in named.keys(name)
    } == expected
    events = await named.events_through(AgentEventType.TURN_COMPLETED)
    assert [e.payload.text for e in events if isinstance(e.payload, TextDelta)] == ["as it comes"]
    exported = cast("dict[str, Any]", await named.sessions.export_session(named.session_id))
    assert exported["session_id"] == named.session_id
    assert (await named.sessions.erase_session(named.session_id)).session_id == named.session_id


async def test_tool_call_ids__of_any_characters_name_one_call_each(
    conversation: Conversation,
) -> None:
    ids = list(CALL_IDS.values())
    calls = tuple(Call(id=call, tool="ask", padding_characters=5_000) for call in ids)
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    questions = await conversation.questions(len(ids))
    for question in questions[1:]:
        assert await conversation.answer(question, approved=True)
    assert await conversation.answer(questions[0], approved=False, rejection_message="no")

    rejected, *ran = await conversation.answers()
    assert rejected == f"{ids[0]}: no"
    assert ran == [*(f"{call}: done" for call in ids[1:]), "an answer"]
    standing = [ToolCallId.standing_for(call) for call in ids]
    keys = sorted(f"turn-1/{call}" for call in standing[1:])
    assert sorted(conversation.keys("ask")) == keys
    page = await conversation.sessions.list_approvals(conversation.session_id)
    assert sorted(record.tool_call_id for record in page.approvals) == sorted(standing)
    told = await conversation.events_through(AgentEventType.TURN_COMPLETED)
    finished = [e.payload.tool_call_id for e in told if isinstance(e.payload, ToolCallFinished)]
    assert sorted(finished) == sorted(standing)


async def test_tool_call_ids__of_any_characters_end_with_a_cancelled_turn(
    conversation: Conversation,
) -> None:
    calls = tuple(Call(id=call, tool="ask") for call in CALL_IDS.values())
    await conversation.start(Reply(calls=calls))
    await conversation.questions(len(calls))

    assert await conversation.sessions.cancel_turn(conversation.session_id)

    snapshot = await conversation.end_of_turn()
    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert snapshot.state.last_turn == TurnCancelled()
    assert snapshot.approval_count == len(calls)
    assert await conversation.say(Reply(text="it goes on"))
    assert await conversation.answers(2) == ["it goes on"]


async def test_tool_names__of_any_characters_name_one_tool_each(conversation: Conversation) -> None:
    names = list(TOOL_NAMES.values())
    calls = tuple(Call(id=f"c{n}", tool=name) for n, name in enumerate(names))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    for question in await conversation.questions(len(names)):
        assert await conversation.answer(question, approved=True)

    results = [f"c{n}: done" for n, _ in enumerate(names)]
    assert await conversation.answers() == [*results, "an answer"]
    assert [conversation.keys(name) for name in names] == [
        [f"turn-1/c{n}"] for n, _ in enumerate(names)
    ]


REFUSED_CALLS: Final = {
    "no ID": (Call(id="", tool="look"), "tool call ID ''"),
    "no name": (Call(id="c", tool=" "), "tool name ' '"),
    "a long name": (Call(id="c", tool="n" * 1_000), f"tool name '{'n' * 40}'"),
    "a huge name": (Call(id="c", tool="n" * 100_000), f"tool name '{'n' * 40}'"),
}


@pytest.mark.parametrize("refused", REFUSED_CALLS)
async def test_call__that_no_session_can_name_fails_its_turn_in_so_many_words(
    conversation: Conversation, refused: str
) -> None:
    call, named = REFUSED_CALLS[refused]
    await conversation.start(Reply(calls=(call,)))

    snapshot = await conversation.end_of_turn()
    assert snapshot.state is not None
    assert named in (snapshot.state.last_turn_error or "")
    assert len(snapshot.state.last_turn_error or "") < 500
    assert await conversation.say(Reply(text="it goes on"))
    assert await conversation.answers(2) == ["it goes on"]
