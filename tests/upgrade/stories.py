"""Sessions at the moments at which a release may replace another: how each is brought there, and how it must go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from attrs import frozen

from dex_agents_model.calls import Runnable, Succeeded
from dex_agents_model.requests import AgentSnapshot
from tests.binding.conversation import Conversation
from tests.binding.script import Call, Reply


@frozen(kw_only=True)
class Story:
    """``begin`` ends at the moment; ``go_on`` takes the session from there to its end, and asserts it."""

    name: str
    begin: Callable[[Conversation], Awaitable[None]]
    go_on: Callable[[Conversation], Awaitable[None]]


async def _first_turn(conversation: Conversation) -> None:
    await conversation.start(
        Reply(calls=(Call(id="c", tool="pay"),)), Reply(text="paid \N{SNOWMAN}")
    )
    await conversation.end_of_turn()


async def _asked(conversation: Conversation) -> None:
    await _first_turn(conversation)
    calls = (Call(id="a", tool="ask"), Call(id="b", tool="put"))
    assert await conversation.say(Reply(calls=calls), Reply(text="an answer"))
    await conversation.questions()
    await conversation.when(
        "the end of the other tool",
        lambda snapshot: any(isinstance(call, Succeeded) for call in snapshot.tool_calls),
    )
    assert await conversation.say(Reply(text="later"))


async def _answered(conversation: Conversation) -> None:
    (question,) = await conversation.questions()
    assert await conversation.answer(question, approved=True, resolved_by="ada")

    assert await conversation.answers(3) == ["later"]
    assert await conversation.texts(1) == ["c: done", "paid \N{SNOWMAN}"]
    assert await conversation.texts(2) == ["a: done", "b: done", "an answer"]
    assert sorted(conversation.calls()) == [("ask", 1), ("model", 1), ("model", 1)]
    (decided,) = (await conversation.sessions.list_approvals(conversation.session_id)).approvals
    assert (decided.tool_call_id, decided.resolved_by) == ("a", "ada")


async def _in_a_model_call(conversation: Conversation) -> None:
    await _first_turn(conversation)
    calls = (Call(id="c", tool="put", output="put away"),)
    assert await conversation.say(Reply(calls=calls), Reply(gate="model", text="an answer"))
    await conversation.gate("model").wait_until_reached()


async def _model_called_again(conversation: Conversation) -> None:
    conversation.gate("model").release()

    assert await conversation.answers(2) == ["c: put away", "an answer"]
    assert await conversation.say(Reply(text="another"))
    assert await conversation.answers(3) == ["another"]
    assert conversation.calls() == [("model", 1), ("model", 1)]


async def _in_a_tool(conversation: Conversation) -> None:
    calls = (Call(id="first", tool="pay"), Call(id="second", tool="look", gate="look"))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    await conversation.gate("look").wait_until_reached()

    def is_half_done(snapshot: AgentSnapshot) -> bool:
        return [type(call) for call in snapshot.tool_calls] == [Succeeded, Runnable]

    await conversation.when("the end of the first tool", is_half_done)


async def _tool_run_again(conversation: Conversation) -> None:
    conversation.gate("look").release()

    assert await conversation.answers() == ["first: done", "second: done", "an answer"]
    assert conversation.calls() == [("look", 1), ("model", 1)]


async def _cancelled(conversation: Conversation) -> None:
    await _first_turn(conversation)
    calls = (Call(id="c", tool="put"), Call(id="d", tool="ask"))
    assert await conversation.say(Reply(calls=calls))
    await conversation.questions()
    assert await conversation.sessions.cancel_turn(conversation.session_id)
    await conversation.end_of_turn(2)


async def _spoken_to(conversation: Conversation) -> None:
    before = await conversation.messages()
    assert await conversation.say(Reply(text="an answer"))

    assert await conversation.answers(3) == ["an answer"]
    after = await conversation.messages()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 2


STORIES: Final = (
    Story(name="waiting_for_approval", begin=_asked, go_on=_answered),
    Story(name="in_a_model_call", begin=_in_a_model_call, go_on=_model_called_again),
    Story(name="in_a_tool", begin=_in_a_tool, go_on=_tool_run_again),
    Story(name="at_rest", begin=_cancelled, go_on=_spoken_to),
)
