"""What a watcher reads while a session works: in order, numbered, and never ahead of what is stored."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

from attrs import evolve

from dex_agents_dex.event_reads import ReadEvent
from dex_agents_dex.event_stream import AttemptEvents, RunnerEvents
from dex_agents_model import AgentEvent, AgentEventType, AgentUsage, ToolCallId, ToolEffect, TurnId
from dex_agents_model.calls import ToolCallStatus
from dex_agents_model.events import (
    EventPayload,
    StepMethod,
    TextDelta,
    ToolCallDeferred,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompletedEvent,
    TurnEvent,
    TurnStarted,
    UsageRecorded,
)
from dex_agents_model.records import TurnSucceeded, WaitingForUserMessage

from .conversation import Conversation
from .script import Call, Reply
from .scripted_runner import ONE_CALL

CALL = ToolCallId("c")


def attempt_of(
    step_execution_id: str,
    *payloads: EventPayload,
    attempt: int = 1,
    method: StepMethod = StepMethod.EXECUTE,
    turn: str = "turn-1",
) -> list[AgentEvent]:
    """All events of one attempt."""
    return [
        AgentEvent(TurnId(turn), step_execution_id, method, attempt, index, payload)
        for index, payload in enumerate(payloads)
    ]


def used(calls: int) -> UsageRecorded:
    """One more model call was committed, the ``calls``-th of the session."""
    total = AgentUsage()
    for _ in range(calls):
        total += ONE_CALL
    return UsageRecorded(ONE_CALL, total)


async def test_events__tell_a_turn_in_order(conversation: Conversation) -> None:
    await conversation.start(
        Reply(deltas=("let me ", "look"), calls=(Call(id=CALL, tool="look"),)),
        Reply(deltas=("an ",), delta_from_thread="answer", text="an answer"),
    )

    events = await conversation.events_through(AgentEventType.TURN_COMPLETED)

    assert events == [
        *attempt_of("StartAgentSession-1", TurnStarted(1)),
        *attempt_of(
            "RunModel-1",
            TextDelta("let me "),
            TextDelta("look"),
            used(1),
            ToolCallDeferred(CALL, "look", ToolEffect.READ, requires_approval=False),
        ),
        *attempt_of(
            "CallTool-1",
            ToolCallStarted(CALL, "look"),
            ToolCallFinished(CALL, "look", ToolCallStatus.SUCCEEDED),
        ),
        *attempt_of("RunModel-2", TextDelta("an "), TextDelta("answer"), used(2)),
        *attempt_of("AwaitUserMessage-1", TurnCompletedEvent(2), method=StepMethod.WAIT_FOR),
    ]


async def test_turn_completed__comes_when_the_turn_is_stored(conversation: Conversation) -> None:
    await conversation.start(Reply(text="an answer"))

    await conversation.events_through(AgentEventType.TURN_COMPLETED)

    snapshot = await conversation.sessions.get_agent_snapshot(conversation.session_id)
    assert snapshot.state == WaitingForUserMessage(1, 2, TurnSucceeded(1))
    assert [message.text for message in snapshot.messages[1:]] == ["an answer"]


async def test_events__of_a_failed_attempt_keep_its_number(conversation: Conversation) -> None:
    await conversation.start(Reply(deltas=("an answer",), crash="lost", crashes_until_attempt=1))

    events = await conversation.events_through(AgentEventType.TURN_COMPLETED)

    assert events == [
        *attempt_of("StartAgentSession-1", TurnStarted(1)),
        *attempt_of("RunModel-1", TextDelta("an answer")),
        *attempt_of("RunModel-1", TextDelta("an answer"), used(1), attempt=2),
        *attempt_of("AwaitUserMessage-1", TurnCompletedEvent(1), method=StepMethod.WAIT_FOR),
    ]


async def test_follow__since_a_snapshot_tells_nothing_of_turns_that_had_ended(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await conversation.start(Reply(text="one"))
    ended = evolve(await conversation.end_of_turn(), event_token="")  # as if read at the beginning
    await conversation.say(Reply(text="two"))

    followed = []
    async with aclosing(sessions.follow(session, since=ended)) as events:
        async for each in events:
            assert isinstance(each, ReadEvent)
            followed.append(each.event)
            if isinstance(each.event.payload, TurnCompletedEvent):
                break

    assert {event.turn_id for event in followed} == {"turn-2"}
    assert isinstance(followed[0].payload, TurnStarted)


async def test_writer__drops_what_comes_after_the_call_has_returned() -> None:
    recorder = Recorder()
    events = RunnerEvents(recorder, TurnId("turn-1"))
    events.write_text_delta("in time")
    await asyncio.to_thread(events.write_text_delta, "in time, from a thread")

    too_late = threading.Thread(target=events.write_text_delta, args=["told before, too late"])
    too_late.start()
    too_late.join()  # the loop has not run since, so it has not taken the thread's word yet
    events.close()
    events.write_text_delta("too late")
    await asyncio.to_thread(events.write_text_delta, "too late, from a thread")

    assert recorder.payloads == [TextDelta("in time"), TextDelta("in time, from a thread")]


class Recorder(AttemptEvents):
    """Stands for the events of an attempt, and keeps what it is told."""

    def __init__(self) -> None:
        self.payloads: list[EventPayload] = []

    def tell(self, event: TurnEvent) -> None:
        self.payloads.append(event.payload)
