"""Following a session: every event once, across processes that die, and a word where events are missing."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

from attrs import evolve

from dex_agents_dex import AgentRuntime, AgentSessionFlow, EventsLost, ReadEvent
from dex_agents_dex.devengine import DevEngine
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model.events import (
    AgentEvent,
    AgentEventType,
    TextDelta,
    ToolCallFinished,
    TurnCompletedEvent,
    TurnStarted,
)

from .conftest import Breakable
from .conversation import Conversation
from .flows import OPTIONS
from .script import Call, Reply
from .scripted_runner import ScriptedRunner

STREAM_BYTES = 16 * 1024


async def test_follow__outlasts_workers_and_engines_and_yields_each_event_once(
    breakable: Breakable,
) -> None:
    stack, conversation = breakable.stack, breakable.conversation()
    worker = await stack.start_worker()
    await conversation.start(Reply(calls=(Call(id="c", tool="look", gate="look"),)), Reply())
    followed: list[AgentEvent] = []
    async with aclosing(conversation.sessions.follow(conversation.session_id, "")) as events:
        async for each in events:
            assert isinstance(each, ReadEvent)
            followed.append(each.event)
            match each.event.payload:
                case TurnStarted() if each.event.turn_id.number == 1:
                    await conversation.gate("look").wait_until_reached()
                    worker.kill()
                    conversation.gate("look").release()
                    worker = await stack.start_worker()
                case TurnCompletedEvent() if each.event.turn_id.number == 1:
                    await stack.restart_engine()
                    assert await conversation.say(Reply(deltas=("after", "all")))
                case TurnCompletedEvent():
                    break

    told = [(e.step_execution_id, e.method, e.attempt, e.index) for e in followed]
    assert len(set(told)) == len(told)
    kinds = [(e.turn_id.number, e.payload) for e in followed]
    assert [n for n, p in kinds if isinstance(p, TurnStarted | TurnCompletedEvent)] == [1, 1, 2, 2]
    assert sum(isinstance(payload, ToolCallFinished) for _, payload in kinds) == 1
    assert [p.text for n, p in kinds if n == 2 and isinstance(p, TextDelta)] == ["after", "all"]


async def test_follow__says_where_the_stream_was_cut_before_it_was_read(tmp_path: Path) -> None:
    flow = AgentSessionFlow(
        ScriptedRunner(tmp_path),
        flow_type="Chatty",
        options=evolve(OPTIONS, event_stream_capacity_bytes=STREAM_BYTES),
    )
    async with (
        DevEngine(tmp_path / "data") as engine,
        AgentRuntime(flow, server_address=engine.address) as runtime,
    ):
        conversation = Conversation(runtime.sessions(flow), "s", tmp_path)
        deltas = tuple(f"{n} {'x' * 1_000}" for n in range(3 * STREAM_BYTES // 1_000))
        await conversation.start(Reply(gate="model", deltas=deltas))
        async with aclosing(conversation.sessions.follow("s", "")) as events:
            first = await anext(events)
            conversation.gate("model").release()
            await conversation.end_of_turn()
            second = await anext(events)
            third = await anext(events)

    assert isinstance(first, ReadEvent)
    assert isinstance(first.event.payload, TurnStarted)
    assert second == EventsLost()
    assert isinstance(third, ReadEvent)
    assert third.event.index > first.event.index


async def test_follow__through_a_position_ends_there_though_its_event_is_no_news(
    conversation: Conversation,
) -> None:
    sessions, session = conversation.sessions, conversation.session_id
    await conversation.start(Reply(deltas=("a", "b")))
    told = await conversation.events_through(AgentEventType.TURN_COMPLETED)
    ended = await sessions.get_agent_snapshot(session)
    newest = ended.event_token

    async with asyncio.timeout(DEFAULT_TIMEOUT.total_seconds()):
        followed = [each async for each in sessions.follow(session, "", through=newest)]
        since_its_end = evolve(ended, event_token="")
        no_news = [
            each async for each in sessions.follow(session, since=since_its_end, through=newest)
        ]
        cut_off = [each async for each in sessions.follow(session, "", through="of another time")]

    assert [each.event for each in followed if isinstance(each, ReadEvent)] == told
    assert no_news == []
    assert cut_off == followed
