"""Text that no storage holds never loses a turn: a NUL and a lone surrogate become U+FFFD, and nothing else changes.

The replacement is visible, and the same in the history, in the snapshot, in what watchers are told
and in what the model is told, whoever wrote the text: the user, the model, a tool, an error, a
person who answers. What a provider gave as opaque stays byte-exact.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ThinkingPart

from dex_agents_model import AgentEventType, AgentMessage, MessageRole
from dex_agents_model.folding import fold_events
from dex_agents_model.notes import OUTCOME_UNKNOWN_TOOL_RESULT
from dex_agents_model.records import TurnFailed, WaitingForUserMessage
from dex_agents_model.text import clean_text
from dex_agents_pydantic_ai import PydanticAIRunner
from tests.adapter.doubles import ScriptedModel, Session, succeeded, tool_calls
from tests.adapter.openai_protocol import calls, text
from tests.binding.script import Call, Reply, script

from .bench import Bench, Talk
from .histories import loaded
from .remote import GARBLED, READABLE, REMOTE


async def stored(talk: Talk) -> list[AgentMessage]:
    """The history, when every text of it can be stored and the snapshot shows the same."""
    messages = await talk.messages()
    for message in messages:
        for held in (message.framework_item, message.text or "", message.tool_call_id or ""):
            assert held.encode().decode() == held
    snapshot = await talk.sessions.get_agent_snapshot(talk.session_id)
    assert list(snapshot.messages) == messages
    return messages


def said(request: dict[str, Any], role: str) -> list[str]:
    return [str(m["content"]) for m in request["messages"] if m["role"] == role]


async def test_user_text__is_kept_readable_however_it_is_sent(bench: Bench) -> None:
    """As the first message, in the queue, and to the turn that runs."""
    talk = bench.talk(REMOTE)
    texts = {way: f"{talk.session_id} {way} {READABLE}" for way in ("start", "send", "steer")}
    for way in texts.values():
        bench.provider.script(way, text(f"heard {GARBLED}"))

    def garbled(way: str) -> str:
        return texts[way].replace(READABLE, GARBLED)

    await talk.sessions.start_session(talk.session_id, garbled("start"))
    await talk.end_of_turn(1)
    assert await talk.sessions.send_user_message(talk.session_id, garbled("send"))
    await talk.end_of_turn(2)
    assert await talk.sessions.steer_user_message(talk.session_id, garbled("steer"))
    await talk.end_of_turn(3)

    assert [m.text for m in await stored(talk)] == [
        line for way in texts.values() for line in (way, f"heard {READABLE}")
    ]
    [last] = bench.provider.asked(texts["steer"])
    assert said(last, "user") == list(texts.values())
    assert said(last, "assistant") == [f"heard {READABLE}"] * 2


async def test_answer__is_told_as_it_is_stored(bench: Bench) -> None:
    """A pair that is cut in two by the provider is no pair any more, in either place."""
    pieces = (GARBLED, "\ud83d", "\ude00", GARBLED)
    talk = await bench.remote(text(*pieces, thinking=[GARBLED]))

    events = await talk.events_through(AgentEventType.TURN_COMPLETED)
    [live] = fold_events(events).texts
    assert (live.reasoning, live.text) == (READABLE, f"{READABLE}\ufffd\ufffd{READABLE}")
    assert (await stored(talk))[-1].text == live.text


async def test_call__with_garbled_arguments_and_ids_reaches_its_tool(bench: Bench) -> None:
    unknown = (GARBLED, json.dumps({GARBLED: GARBLED}), f"1{GARBLED}")
    known = ("garble", json.dumps({"how": "text"}), f"2{GARBLED}")
    talk = await bench.remote(calls(unknown), calls(known), text("done"))

    assert (await talk.answers())[-1] == "done"
    assert talk.keys("garble") == [f"turn-1/2{READABLE}"]
    assert await talk.told() == {
        f"1{READABLE}": f"retried: Unknown tool name: {READABLE!r}. Available tools: "
        + ", ".join(f"'{name}'" for name in ("ask", "garble", "look", "pay", "scan", "wipe")),
        f"2{READABLE}": f"success: {READABLE}",
    }
    await stored(talk)
    _, corrected, _ = bench.asked(talk)
    [asked] = [m["tool_calls"][0] for m in corrected["messages"] if m.get("tool_calls")]
    assert asked["function"]["name"] == READABLE
    assert json.loads(asked["function"]["arguments"]) == {READABLE: READABLE}


TOLD = {
    "text": READABLE,
    "data": json.dumps({"key": [READABLE]}, ensure_ascii=False, separators=(",", ":")),
    "beside": "seen",
    "refusal": f"The tool call failed: {READABLE}",
    "retry": f"The tool call failed: {READABLE}",
    "crash": OUTCOME_UNKNOWN_TOOL_RESULT,
}


@pytest.mark.parametrize("how", TOLD)
async def test_tool__that_ends_with_garbled_text_ends_its_call(bench: Bench, how: str) -> None:
    talk = await bench.remote(
        calls(("garble", json.dumps({"how": how}), "c")), text("done"), text("again")
    )

    assert (await talk.answers())[-1] == "done"
    assert len(talk.keys("garble")) == 1
    _, request = bench.asked(talk)
    [told] = said(request, "tool")
    assert TOLD[how] in told
    if how == "beside":
        assert said(request, "user") == [talk.session_id, READABLE]
    await stored(talk)


async def test_calls__that_fail_with_garbled_words_fail_readably_and_no_more_often(
    bench: Bench,
) -> None:
    talk = bench.talk()
    tools = (Call(id=f"c-{tool}", tool=tool, way="garbled crash") for tool in ("look", "pay"))
    await talk.start(Reply(calls=tuple(tools)), Reply(way="garbled crash"))

    state = (await talk.end_of_turn()).state
    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnFailed)
    assert state.last_turn.error == "the model call failed: ConnectionError: a\ufffdb\ufffd"
    *_, failed = await talk.events_through(AgentEventType.TURN_FAILED)
    assert state.last_turn.error == getattr(failed.payload, "error", None)
    assert await talk.told() == {
        "c-look": "failed: The tool call failed: tool look raised ConnectionError: a\ufffdb\ufffd",
        "c-pay": f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}",
    }
    assert [len(talk.keys(name)) for name in ("look", "pay", "model")] == [3, 1, 4]
    assert await talk.say(Reply(text="another"))
    assert (await talk.answers(2))[-1] == "another"


async def test_person__who_answers_in_garbled_words_is_understood(bench: Bench) -> None:
    talk = await bench.remote(calls(("ask", '{"number": 7}', "c")), text("done"))
    (question,) = await talk.questions()
    assert await talk.answer(
        question, approved=False, rejection_message=GARBLED, resolved_by=GARBLED, reason=GARBLED
    )

    assert (await talk.answers())[-1] == "done"
    _, request = bench.asked(talk)
    assert said(request, "tool") == [READABLE]
    [kept] = (await talk.sessions.list_approvals(talk.session_id)).approvals
    assert (kept.resolved_by, kept.reason) == (READABLE, READABLE)


SIGNATURES = {
    "base64": "EqQBCgIYAhIM+/==",
    "controls": "\x00\x01\x7f\r\n",
    "escapes": '\\u0000"\\ud800\U0001f600é',
}


@pytest.mark.parametrize("what", SIGNATURES)
async def test_signature__of_a_thought_stays_byte_exact(bench: Bench, what: str) -> None:
    talk = bench.talk()
    signed = Reply(thought=f"hm {GARBLED}", signature=SIGNATURES[what], text="one")
    await talk.sessions.start_session(talk.session_id, script(signed))
    await talk.end_of_turn()
    assert await talk.say(Reply(text="two"))
    await talk.end_of_turn(2)

    [thought] = [
        part
        for message in loaded(await stored(talk))
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ThinkingPart)
    ]
    assert (thought.content, thought.signature) == (f"hm {READABLE}", SIGNATURES[what])


# --- any text, anywhere --------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)


def find(x: str) -> str:
    """A tool of the agent; it runs in no model Step."""
    raise AssertionError(x)


def words_of(messages: list[ModelMessage]) -> list[tuple[str, object]]:
    """All that is said in ``messages``, without the times at which it was."""
    return [
        (part.part_kind, getattr(part, "args", getattr(part, "content", None)))
        for message in messages
        for part in message.parts
    ]


@settings(max_examples=50)
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_turn__keeps_any_text_of_anyone_the_same_in_history_and_model_input(
    user: str, argument: str, result: str, answer: str
) -> None:
    model = ScriptedModel(
        tool_calls(("find", json.dumps({"x": argument}), "c")), [f"an {answer}"], ["later"]
    )
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))

    async def talk() -> None:
        await played.ask(f"a {user}")
        await played.resume(succeeded("c", clean_text(result)))
        await played.ask("again")

    asyncio.run(talk())
    for message in played.messages:
        assert message.framework_item.encode().decode() == message.framework_item
    told, kept = map(words_of, (model.received[-1], loaded(played.messages)))
    assert told == kept[: len(told)]
    assert played.messages[0].text == clean_text(f"a {user}")
    assert [m.text for m in played.messages if m.role is MessageRole.ASSISTANT] == [
        *(None, clean_text(f"an {answer}"), "later"),
    ]
