"""A session is exported whole, closed, and erased: what is said to be gone is gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex import AgentRuntime, Erasure, SessionNotFound
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.entries import Entries
from dex_agents_dex.operations import EVENTS_LEFT, HISTORY_LEFT, STATE_LEFT
from dex_agents_dex.schema import AGENT_TOOL_CALL_PARTS
from dex_agents_model import AgentSnapshot, SessionId, TurnId
from dex_agents_model.calls import FinalCall, Succeeded
from dex_agents_model.records import AgentUserMessage, RunningTools
from dex_agents_model.steps import ResumeTurn

from .conftest import Served
from .conversation import Conversation
from .flows import COMPACTING, SCRIPTED, build_flows
from .script import Call, Reply, script
from .seeding import put_session, state_at

SECRET: Final = "nobody else may know this"
LONG: Final = 250_000
"""Characters of a text that lies in parts, and of which a few make more than a frame."""


def stored_texts(state: pb.GetFlowStateResponse) -> Iterator[str]:
    """Every text in it, without those that are long enough to lie apart."""
    values = [entry.value for entry in state.attributes]
    values += [
        message.value
        for waiting in state.pending_channel_messages.values()
        for message in waiting.messages
    ]
    for value in values:
        if value.HasField("string_value"):
            yield value.string_value
        elif value.HasField("obj_value"):
            yield from texts_in(json.loads(value.obj_value.payload))


def texts_in(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        for each in data:
            yield from texts_in(each)
    elif isinstance(data, dict) and "parts" not in data:
        for each in data.values():
            yield from texts_in(each)


async def in_the_middle_of_much(conversation: Conversation) -> None:
    """A session that has something of nearly everything: a turn that ended, and one that does not."""
    await conversation.start(Reply(calls=(Call(id="a", tool="ask"),)), Reply(text="first"))
    (question,) = await conversation.questions()
    assert await conversation.answer(question, approved=True, resolved_by="ada", reason="why not")
    await conversation.end_of_turn()
    calls = (
        Call(id="ask", tool="ask"),
        Call(id="pay", tool="pay", gate="paying"),
        Call(id="look", tool="look", output=SECRET),
        Call(id="long", tool="look", output_characters=LONG),
    )
    assert await conversation.say(
        Reply(calls=(Call(id="c", tool="put", gate="putting"),)), Reply(calls=calls)
    )
    await conversation.gate("putting").wait_until_reached()
    await steer(conversation, "taken")
    conversation.gate("putting").release()
    await conversation.gate("paying").wait_until_reached()
    await conversation.questions()

    def has_looked(snapshot: AgentSnapshot) -> bool:
        return sum(isinstance(call, Succeeded) for call in snapshot.tool_calls) == 3

    await conversation.when("the ends of the other tools", has_looked)
    await steer(conversation, "waiting")
    assert await conversation.say(Reply(text="queued"))


async def steer(conversation: Conversation, text: str) -> None:
    assert await conversation.sessions.steer_user_message(
        conversation.session_id, text, rejects_pending_approvals=False
    )


async def export(conversation: Conversation) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", await conversation.sessions.export_session(conversation.session_id)
    )


# --- export ----------------------------------------------------------------------------------


async def test_export__leaves_out_what_goes_while_it_is_read(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn ends between the reading of its calls and that of their long results."""
    calls = (
        Call(id="long", tool="look", output_characters=LONG),
        Call(id="pay", tool="pay", gate="paying"),
    )
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    await conversation.gate("paying").wait_until_reached()

    def has_looked(snapshot: AgentSnapshot) -> bool:
        return any(isinstance(call, Succeeded) for call in snapshot.tool_calls)

    await conversation.when("the long result", has_looked)
    stored = Entries.stored

    async def late(self: Entries, entries: Any, keys: Iterable[str]) -> dict[str, Any]:
        if entries is AGENT_TOOL_CALL_PARTS:
            conversation.gate("paying").release()
            await conversation.end_of_turn()
        return await stored(self, entries, keys)

    monkeypatch.setattr(Entries, "stored", late)
    exported = await export(conversation)

    assert [call["tool_call_id"] for call in exported["tool_calls"]] == ["pay"]


async def test_export__has_every_text_that_the_server_holds(
    conversation: Conversation, served: Served
) -> None:
    await in_the_middle_of_much(conversation)

    exported = await export(conversation)

    conversation.gate("paying").release()
    known = "\0".join(texts_in(exported))
    stored = set(stored_texts(await state_at(served.server_address, conversation.session_id)))
    assert SECRET in stored
    assert [text for text in stored if text not in known] == []
    assert (exported["flow_type"], exported["status"]) == (SCRIPTED, "running")
    assert exported["unreadable"] == {}
    assert [len(call["output"]) for call in exported["tool_calls"] if "output" in call] == [
        *(len("done"), len(SECRET), LONG),
    ]
    assert list(exported["tool_call_claims"]) == ["pay"]
    assert [each["text"] for each in exported["messages"][:3:2]] == [
        script(Reply(calls=(Call(id="a", tool="ask"),)), Reply(text="first")),
        "first",
    ]
    assert [each["message"]["text"] for each in exported["taken_steering"]] == ["taken"]
    assert [each["message"]["text"] for each in exported["queued_steering"]] == ["waiting"]
    assert [each["text"] for each in exported["queued_user_messages"]] == [
        script(Reply(text="queued"))
    ]
    assert [each["resolved_by"] for each in exported["approvals"]] == ["ada"]
    assert exported["events"][0]["type"] == "turn_started"


async def test_export__of_a_closed_session_is_that_of_the_open_one(
    new_conversation: Callable[[str], Conversation],
) -> None:
    conversation = new_conversation(COMPACTING)
    await conversation.start(Reply(text_characters=27_000))
    await conversation.end_of_turn()
    assert await conversation.say(Reply(text="an answer"))
    await conversation.end_of_turn(2)
    before = await export(conversation)

    await conversation.sessions.close_session(conversation.session_id)

    after = await export(conversation)
    assert after == {**before, "status": "canceled"}
    assert [summary["text"] for summary in after["summaries"]] == ["what was said so far"]


async def test_export__of_more_than_a_frame_holds_is_whole(conversation: Conversation) -> None:
    looks = tuple(Call(id=f"{n:02}", tool="look", output_characters=LONG) for n in range(20))
    last = Call(id="ask", tool="ask")
    await conversation.start(
        Reply(calls=looks[:10]), Reply(calls=(*looks[10:], last)), Reply(text="an answer")
    )
    (question,) = await conversation.questions()
    await conversation.when(
        "the end of all other calls",
        lambda seen: sum(isinstance(call, FinalCall) for call in seen.tool_calls) == len(looks),
    )
    running = await export(conversation)
    assert await conversation.answer(question, approved=False)
    await conversation.end_of_turn()
    ended = await export(conversation)

    assert [len(call.get("output", "")) for call in running["tool_calls"]] == [LONG] * 20 + [0]
    results = [each["text"] for each in ended["messages"] if each["role"] == "tool"]
    assert [len(text) for text in results[:-1]] == [LONG + len("10: ")] * 20
    assert ended["tool_calls"] == []


async def test_export__names_what_dex_cannot_load(
    conversation: Conversation, served: Served
) -> None:
    one_of_too_many = AgentUserMessage("x" * 1_200)
    await put_session(
        served.server_address,
        conversation.session_id,
        state=RunningTools(1, 1, 1),
        open_step=ResumeTurn(TurnId("turn-1"), expected_result_count=1),
        queued=(one_of_too_many,) * 4_000,
    )

    exported = await export(conversation)

    assert list(exported["unreadable"]) == ["queued_user_messages"]
    assert "bytes" in exported["unreadable"]["queued_user_messages"]
    assert exported["singletons"]["AgentState"]["turn_count"] == 1


# --- close -----------------------------------------------------------------------------------


async def test_close__stops_what_runs_and_keeps_what_is_stored(conversation: Conversation) -> None:
    await conversation.start(Reply(gate="model", text="never said"))
    await conversation.gate("model").wait_until_reached()

    await conversation.sessions.close_session(conversation.session_id, reason="the end")

    await conversation.gate("model, cut off").wait_until_reached()
    (message,) = await conversation.messages()
    assert message.text == script(Reply(gate="model", text="never said"))
    with pytest.raises(SessionNotFound):
        await conversation.say(Reply())
    with pytest.raises(SessionNotFound):
        await conversation.sessions.close_session(conversation.session_id)


# --- erase -----------------------------------------------------------------------------------


@pytest.mark.parametrize("closes", [False, True], ids=["open", "closed"])
async def test_erase__on_the_dev_engine_leaves_no_byte_in_its_file(
    tmp_path: Path, closes: bool
) -> None:
    data_dir = tmp_path / "data"
    flows = build_flows(tmp_path)
    async with (
        DevEngine(data_dir) as engine,
        AgentRuntime(*flows, server_address=engine.address) as runtime,
    ):
        sessions = runtime.sessions(SCRIPTED)
        erased = Conversation(sessions, "erased", tmp_path)
        kept = Conversation(sessions, "kept", tmp_path)
        for conversation in (erased, kept):
            await conversation.start(Reply(text=f"{SECRET} of {conversation.session_id}" * 2_000))
            await conversation.end_of_turn()
            assert await conversation.say(Reply(calls=(Call(id="c", tool="ask", output=SECRET),)))
            await conversation.questions()
        if closes:
            await sessions.close_session("erased")
        assert copies(data_dir, "of erased") > 2_000

        assert await sessions.erase_session("erased") == Erasure(SessionId("erased"), left=())

        assert copies(data_dir, "of erased") == 0
        with pytest.raises(SessionNotFound):
            await sessions.get_agent_snapshot("erased")
        assert len(await kept.questions()) == 1
        assert copies(data_dir, "of kept") > 2_000
        await erased.start(Reply(text="a new session"))
        assert await erased.answers() == ["a new session"]


def copies(directory: Path, text: str) -> int:
    """How often files of the engine hold it."""
    return sum(path.read_bytes().count(text.encode()) for path in directory.rglob("*.sqlite3*"))


@pytest.mark.usefixtures("another_server")
async def test_erase__empties_and_closes_an_open_session_and_says_what_is_left(
    conversation: Conversation, served: Served
) -> None:
    await in_the_middle_of_much(conversation)
    session_id = conversation.session_id

    erasure = await conversation.sessions.erase_session(session_id)

    assert erasure == Erasure(SessionId(session_id), left=(HISTORY_LEFT, EVENTS_LEFT))
    assert not erasure.is_complete
    await conversation.gate("paying, cut off").wait_until_reached()
    state = await state_at(served.server_address, session_id)
    assert [entry.key for entry in state.attributes] == []
    assert dict(state.pending_channel_messages) == {}
    assert list(state.active_step_executions) == []
    snapshot = await conversation.sessions.get_agent_snapshot(session_id)
    assert (snapshot.state, snapshot.messages) == (None, ())
    with pytest.raises(SessionNotFound):
        await conversation.say(Reply())


@pytest.mark.usefixtures("another_server")
async def test_erase__of_a_closed_session_says_that_all_of_it_is_left(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(text="an answer"))
    await conversation.end_of_turn()
    await conversation.sessions.close_session(conversation.session_id)

    erasure = await conversation.sessions.erase_session(conversation.session_id)

    assert erasure.left == (STATE_LEFT, HISTORY_LEFT, EVENTS_LEFT)
    assert await conversation.texts(1) == ["an answer"]


async def test_operations__on_a_session_that_is_not_there_are_refused(
    conversation: Conversation,
) -> None:
    sessions, session_id = conversation.sessions, conversation.session_id
    for operation in (sessions.close_session, sessions.export_session, sessions.erase_session):
        with pytest.raises(SessionNotFound, match=f"session '{session_id}'"):
            await operation(session_id)
