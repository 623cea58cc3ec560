"""A person's answer to a tool call: it is applied once, to the call and the arguments that it is about."""

from __future__ import annotations

import asyncio

import pytest

from dex_agents_model import AgentInterrupt, InterruptId, ToolCallId, TurnId
from dex_agents_model.notes import DEFAULT_REJECTION_MESSAGE, EXPIRED_MESSAGE
from dex_agents_model.text import digest

from .conversation import Conversation
from .script import Call, Reply

CALL = Call(id="c", tool="ask")
RAN = [("model", 1), ("ask", 1), ("model", 1)]
DID_NOT_RUN = [("model", 1), ("model", 1)]


async def ask(conversation: Conversation) -> AgentInterrupt:
    """Start the session with a call that needs an approval."""
    await conversation.start(Reply(calls=(CALL,)), Reply(text="an answer"))
    (question,) = await conversation.questions()
    return question


async def test_question__names_the_call_and_its_exact_arguments(conversation: Conversation) -> None:
    assert await ask(conversation) == AgentInterrupt(
        interrupt_id=InterruptId("turn-1.c"),
        turn_id=TurnId("turn-1"),
        tool_call_id=ToolCallId("c"),
        tool_name="ask",
        arguments=CALL.arguments(),
        arguments_digest=digest(CALL.arguments()),
    )


async def test_approval__lets_the_tool_run(conversation: Conversation) -> None:
    question = await ask(conversation)
    assert conversation.calls() == [("model", 1)]

    assert await conversation.answer(question, approved=True)

    assert await conversation.answers() == ["c: done", "an answer"]
    assert conversation.calls() == RAN


@pytest.mark.parametrize(
    ("message", "told"), [("not today", "not today"), (None, DEFAULT_REJECTION_MESSAGE)]
)
async def test_rejection__is_told_to_the_model_and_nothing_runs(
    conversation: Conversation, message: str | None, told: str
) -> None:
    question = await ask(conversation)

    assert await conversation.answer(question, approved=False, rejection_message=message)

    assert await conversation.answers() == [f"c: {told}", "an answer"]
    assert conversation.calls() == DID_NOT_RUN


async def test_answer__to_what_does_not_wait_is_refused(conversation: Conversation) -> None:
    question = await ask(conversation)
    other = InterruptId("turn-1.other")
    sessions, session_id = conversation.sessions, conversation.session_id

    assert not await sessions.resolve_interrupt(session_id, other, approved=True)
    assert await conversation.answer(question, approved=False)
    assert not await conversation.answer(question, approved=True)

    assert await conversation.answers() == [f"c: {DEFAULT_REJECTION_MESSAGE}", "an answer"]
    assert conversation.calls() == DID_NOT_RUN


async def test_answer__about_other_arguments_is_refused(conversation: Conversation) -> None:
    question = await ask(conversation)

    other = digest(question.arguments + " ")
    assert not await conversation.answer(question, approved=True, arguments_digest=other)
    assert await conversation.questions() == (question,)
    same = question.arguments_digest
    assert await conversation.answer(question, approved=True, arguments_digest=same)

    assert await conversation.answers() == ["c: done", "an answer"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "in reverse"])
async def test_answers__come_in_any_order(
    conversation: Conversation, order: tuple[int, int]
) -> None:
    calls = (Call(id="yes", tool="ask"), Call(id="no", tool="ask"))
    await conversation.start(Reply(calls=calls), Reply(text="an answer"))
    questions = await conversation.questions(2)

    for position in order:
        question = questions[position]
        assert await conversation.answer(question, approved=question.tool_call_id == "yes")

    assert await conversation.answers() == [
        "yes: done",
        f"no: {DEFAULT_REJECTION_MESSAGE}",
        "an answer",
    ]
    assert conversation.keys("ask") == ["turn-1/yes"]


async def test_answers__of_two_people_at_once_only_one_counts(conversation: Conversation) -> None:
    question = await ask(conversation)

    yes, no = await asyncio.gather(
        conversation.answer(question, approved=True),
        conversation.answer(question, approved=False),
    )

    assert {yes, no} == {True, False}
    told = "done" if yes else DEFAULT_REJECTION_MESSAGE
    assert await conversation.answers() == [f"c: {told}", "an answer"]
    assert conversation.calls() == (RAN if yes else DID_NOT_RUN)


async def test_call_id__may_come_back_in_a_later_turn(conversation: Conversation) -> None:
    first = await ask(conversation)
    assert await conversation.answer(first, approved=True)
    assert await conversation.answers() == ["c: done", "an answer"]

    assert await conversation.say(Reply(calls=(CALL,)), Reply(text="another"))
    (second,) = await conversation.questions()
    assert not await conversation.answer(first, approved=True)
    assert await conversation.answer(second, approved=True)

    assert await conversation.answers(2) == ["c: done", "another"]
    assert conversation.keys("ask") == ["turn-1/c", "turn-2/c"]


async def test_deadline__rejects_what_nobody_answered(
    impatient_conversation: Conversation,
) -> None:
    conversation = impatient_conversation
    question = await ask(conversation)

    assert await conversation.answers() == [f"c: {EXPIRED_MESSAGE}", "an answer"]
    assert not await conversation.answer(question, approved=True)
    assert conversation.calls() == DID_NOT_RUN


LONG = Call(id="c", tool="ask", padding_characters=300_000)


async def test_arguments__that_a_question_shows_shortened_are_read_whole(
    conversation: Conversation,
) -> None:
    await conversation.start(Reply(calls=(LONG,)), Reply(text="an answer"))
    (question,) = await conversation.questions()
    sessions, session_id = conversation.sessions, conversation.session_id

    whole = await sessions.get_interrupt_arguments(session_id, question.interrupt_id)

    assert len(question.arguments) < 2_000
    assert whole == LONG.arguments()
    assert digest(whole) == question.arguments_digest
    assert await conversation.answer(question, approved=False)
    assert await sessions.get_interrupt_arguments(session_id, question.interrupt_id) is None
