"""Sessions that are in one method of one Step when their Worker is told to end: how each got there, how it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from attrs import evolve, frozen

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT, AgentEventType
from dex_agents_model.records import TurnCancelled, TurnEnd, TurnFailed, WaitingForUserMessage

from .conversation import Conversation
from .flows import COMPACTING, SCRIPTED
from .script import Call, Reply
from .scripted_runner import SUMMARY_CRASHES

Act: TypeAlias = Callable[[Conversation], Awaitable[None]]

COMPLETED: Final = AgentEventType.TURN_COMPLETED
FAILED: Final = AgentEventType.TURN_FAILED
CANCELLED: Final = AgentEventType.TURN_CANCELLED

ANSWER: Final = Reply(text="an answer")
IN_THE_MIDDLE: Final = "in the middle"
"""The gate of scripts whose model or tool is what is held."""


@frozen(kw_only=True)
class Stop:
    """``point`` is ``<Step>.<method>``, or says what the runner does. ``ends`` are the ends of all turns."""

    point: str
    begin: Act
    finish: Act
    ends: tuple[AgentEventType, ...] = (COMPLETED,)
    flow_type: str = SCRIPTED
    gate: str | None = None

    @property
    def held_at(self) -> str:
        """The gate that is reached when the session is there."""
        return self.gate or self.point


def says(*replies: Reply) -> Act:
    """Start with a turn in which the model says ``replies``."""

    async def begin(conversation: Conversation) -> None:
        await conversation.start(*replies)

    return begin


def answers(*texts: str) -> Act:
    """The first turn ends with these; each may be the start of what was said."""

    async def finish(conversation: Conversation) -> None:
        said = await conversation.answers()
        assert len(said) == len(texts), said
        for text, start in zip(said, texts, strict=True):
            assert text is not None
            assert text.startswith(start)

    return finish


async def open_silently(conversation: Conversation) -> None:
    await conversation.sessions.start_session(conversation.session_id)


async def open_silently_and_speak(conversation: Conversation) -> None:
    await open_silently(conversation)
    await conversation.end_of_turn(0)
    assert await conversation.say(ANSWER)


async def speak_and_hear(conversation: Conversation) -> None:
    assert await conversation.say(ANSWER)
    await answers("an answer")(conversation)


async def ask_and_approve(conversation: Conversation) -> None:
    await calls("ask")(conversation)
    await approve(conversation)


async def approve(conversation: Conversation) -> None:
    (question,) = await conversation.questions()
    assert await conversation.answer(question, approved=True)


async def approve_and_hear(conversation: Conversation) -> None:
    await approve(conversation)
    await answers("c: done", "an answer")(conversation)


def outgrow_the_window(first: Reply) -> Act:
    """A second turn, before which the first is to be summarised."""

    async def begin(conversation: Conversation) -> None:
        await conversation.start(first)
        await conversation.end_of_turn()
        assert await conversation.say(ANSWER)

    return begin


def hear_the_second(*, summarised_messages: int) -> Act:
    async def finish(conversation: Conversation) -> None:
        assert await conversation.answers(2) == ["an answer"]
        state = (await conversation.end_of_turn(2)).state
        assert state is not None
        assert state.history.summarised_through == summarised_messages

    return finish


def calls(tool: str, *, crash: str | None = None, gate: str | None = None) -> Act:
    return says(Reply(calls=(Call(id="c", tool=tool, crash=crash, gate=gate),)), ANSWER)


def see_it_ended(end: TurnEnd) -> Act:
    async def finish(conversation: Conversation) -> None:
        state = (await conversation.end_of_turn()).state
        assert isinstance(state, WaitingForUserMessage)
        assert state.last_turn == end

    return finish


async def cancel(conversation: Conversation) -> None:
    await conversation.start(Reply(gate="model", text="never said"))
    await conversation.gate("model").wait_until_reached()
    assert await conversation.sessions.cancel_turn(conversation.session_id)


HEAR: Final = answers("an answer")
HEAR_DONE: Final = answers("c: done", "an answer")
HEAR_UNKNOWN: Final = answers(f"c: {OUTCOME_UNKNOWN_TOOL_RESULT}", "an answer")
HEAR_FAILED: Final = answers("c: The tool call failed: ConnectionError: lost", "an answer")
HEAR_NEVER_STARTED: Final = answers(
    "c: The tool call failed: the call never started: ", "an answer"
)
LONG: Final = Reply(text_characters=27_000)
"""With it the input needs a summary, and still fits the window without one."""
LONG_AND_LOST: Final = evolve(LONG, deltas=(SUMMARY_CRASHES,))
TWO: Final = (COMPLETED, COMPLETED)

STOPS: Final[tuple[Stop, ...]] = (
    Stop(point="StartAgentSession.execute", begin=says(ANSWER), finish=HEAR),
    Stop(point="AwaitUserMessage.wait_for", begin=open_silently, finish=speak_and_hear),
    Stop(point="AwaitUserMessage.execute", begin=open_silently_and_speak, finish=HEAR),
    Stop(point="RunModel.execute", begin=says(ANSWER), finish=HEAR),
    Stop(
        point="CompactHistory.execute",
        begin=outgrow_the_window(LONG),
        finish=hear_the_second(summarised_messages=2),
        ends=TWO,
        flow_type=COMPACTING,
    ),
    Stop(
        point="RecordCompactionFailure.execute",
        begin=outgrow_the_window(LONG_AND_LOST),
        finish=hear_the_second(summarised_messages=0),
        ends=TWO,
        flow_type=COMPACTING,
    ),
    Stop(point="AwaitToolApproval.wait_for", begin=calls("ask"), finish=approve_and_hear),
    Stop(point="AwaitToolApproval.execute", begin=ask_and_approve, finish=HEAR_DONE),
    Stop(point="CallTool.execute", begin=calls("put"), finish=HEAR_DONE),
    Stop(point="CallSingleAttemptTool.execute", begin=calls("pay"), finish=HEAR_NEVER_STARTED),
    Stop(point="RecordToolFailure.execute", begin=calls("look", crash="lost"), finish=HEAR_FAILED),
    Stop(
        point="RecordToolOutcomeUnknown.execute",
        begin=calls("pay", crash="lost"),
        finish=HEAR_UNKNOWN,
    ),
    Stop(point="ResumeTurn.wait_for", begin=calls("put"), finish=HEAR_DONE),
    Stop(point="ResumeTurn.execute", begin=calls("put"), finish=HEAR_DONE),
    Stop(
        point="RecordTurnFailure.execute",
        begin=says(Reply(crash="no model today")),
        finish=see_it_ended(TurnFailed("ConnectionError: no model today")),
        ends=(FAILED,),
    ),
    Stop(
        point="RecordTurnCancelled.execute",
        begin=cancel,
        finish=see_it_ended(TurnCancelled()),
        ends=(CANCELLED,),
    ),
    Stop(
        point="a model call",
        begin=says(Reply(gate=IN_THE_MIDDLE, text="an answer")),
        finish=HEAR,
        gate=IN_THE_MIDDLE,
    ),
    Stop(
        point="a tool that may run again",
        begin=calls("put", gate=IN_THE_MIDDLE),
        finish=HEAR_DONE,
        gate=IN_THE_MIDDLE,
    ),
    Stop(
        point="a tool that may not",
        begin=calls("pay", gate=IN_THE_MIDDLE),
        finish=HEAR_UNKNOWN,
        gate=IN_THE_MIDDLE,
    ),
)
