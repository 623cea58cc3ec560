"""Large arguments, results and texts: they arrive whole, or are cut or refused in so many words."""

from __future__ import annotations

import pytest

from dex_agents_model import AgentEventType, AgentInterrupt, AgentSessionOptions
from dex_agents_model.events import TextDelta
from dex_agents_model.text import digest

from .conversation import Conversation
from .script import Call, Reply

OPTIONS = AgentSessionOptions()
KIB = 1024
MIB = 1024 * KIB


@pytest.mark.parametrize("tool", ["look", "ask"])
async def test_arguments__of_200_kb_reach_the_tool_whole(
    conversation: Conversation, tool: str
) -> None:
    call = Call(id="c", tool=tool, measures=True, padding_characters=200_000)
    await conversation.start(Reply(calls=(call,)), Reply(text="an answer"))
    if tool == "ask":
        (question,) = await conversation.questions()
        _assert_shortened(question, call.arguments())
        assert await conversation.answer(question, approved=True)

    measured = f"c: {len(call.arguments())} characters"
    assert await conversation.answers() == [measured, "an answer"]


async def test_arguments__near_the_limit_of_a_response_reach_their_tools(
    conversation: Conversation,
) -> None:
    size = OPTIONS.max_response_argument_bytes // 2 - KIB
    calls = tuple(
        Call(id=name, tool="look", measures=True, padding_characters=size) for name in ("a", "b")
    )
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))

    measured = [f"{call.id}: {len(call.arguments())} characters" for call in calls]
    assert await conversation.answers() == [*measured, "an answer"]


@pytest.mark.parametrize(("count", "each"), [(1, 2 * MIB), (25, 200_000)])
async def test_arguments__beyond_the_limit_of_a_response_fail_the_turn(
    conversation: Conversation, count: int, each: int
) -> None:
    limit = OPTIONS.max_response_argument_bytes
    calls = tuple(Call(id=f"c{n}", tool="look", padding_characters=each) for n in range(count))
    await conversation.start(Reply(calls=calls))

    snapshot = await conversation.end_of_turn()
    assert snapshot.state is not None
    assert snapshot.state.last_turn_error == (
        f"the model's {count} tool calls have {sum(len(c.arguments()) for c in calls)} bytes of"
        " arguments;"
        f" max_response_argument_bytes is {limit}"
    )
    assert conversation.calls() == [("model", 1)]


@pytest.mark.parametrize("size", [MIB, 20 * MIB], ids=["1 MiB", "20 MiB"])
async def test_output__of_any_length_is_cut_with_a_marker(
    conversation: Conversation, size: int
) -> None:
    call = Call(id="c", tool="look", output_characters=size)
    await conversation.start(Reply(calls=(call,)), Reply(text="an answer"))

    kept = OPTIONS.max_tool_output_bytes
    marker = f"\n[The result of look was cut: {kept} of {size} bytes are kept.]"
    assert await conversation.answers() == [f"c: {'o' * kept}{marker}", "an answer"]
    assert conversation.calls() == [("model", 1), ("look", 1), ("model", 1)]


@pytest.mark.parametrize("characters", [64 * KIB, 300_000, MIB], ids=["64 KiB", "300 kB", "1 MiB"])
async def test_text__of_any_length_is_stored_whole(
    conversation: Conversation, characters: int
) -> None:
    await conversation.start(Reply(text_characters=characters))
    assert await conversation.answers() == ["a" * characters]

    assert await conversation.say(Reply(text="it was loaded again"))
    assert await conversation.answers(2) == ["it was loaded again"]


async def test_delta__longer_than_a_stream_message_arrives_whole(
    conversation: Conversation,
) -> None:
    long = "d" * (150 * KIB)
    await conversation.start(Reply(deltas=(long,)))

    events = await conversation.events_through(AgentEventType.TURN_COMPLETED)
    deltas = [event.payload.text for event in events if isinstance(event.payload, TextDelta)]
    assert "".join(deltas) == long


async def test_user_message__beyond_the_limit_is_refused(conversation: Conversation) -> None:
    limit = OPTIONS.max_user_message_bytes
    sessions, session_id = conversation.sessions, conversation.session_id
    too_long = "é" * (limit // 2) + "x"

    with pytest.raises(ValueError, match=f"has {limit + 1} bytes; max_user_message_bytes is"):
        await sessions.start_session(session_id, too_long)
    await conversation.start(Reply(text="an answer"))
    assert not await sessions.send_user_message(session_id, too_long)

    assert await conversation.answers() == ["an answer"]
    snapshot = await conversation.end_of_turn()
    assert snapshot.queued_message_count == 0


def _assert_shortened(question: AgentInterrupt, arguments: str) -> None:
    assert question.arguments_digest == digest(arguments)
    assert question.arguments == f"{arguments[:KIB]}... [{len(arguments)} bytes in full]"
