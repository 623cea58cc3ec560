"""Events are read one by one, however they travelled: each once and in order, from any position, with any client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import dex
import pytest
import pytest_asyncio
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from dex_agents_dex import (
    AgentSessionClient,
    AgentSessionFlow,
    FollowedEvent,
    ReadEvent,
    agent_registry,
)
from dex_agents_dex.dex_server import DexServer
from dex_agents_dex.event_message import EventMessage, event_text
from dex_agents_dex.event_reads import Position, ReadAhead
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentEvent, AgentSessionOptions, SessionId, TurnId
from dex_agents_model.events import StepMethod, TextDelta

from .conftest import Served
from .scripted_runner import ScriptedRunner

SESSION = SessionId("s")
CAPACITY_BYTES = 4096


def events(texts: Iterable[str], first: int = 0) -> list[AgentEvent]:
    """Those of one attempt from its ``first`` on."""
    turn, step = TurnId.of(1), "RunModel-1"
    return [
        AgentEvent(turn, step, StepMethod.EXECUTE, 1, index, TextDelta(text))
        for index, text in enumerate(texts, start=first)
    ]


@frozen
class Told:
    """A Stream of events that the test itself writes, and what its readers ask the server."""

    flow: AgentSessionFlow
    client: dex.AsyncClient
    asked: list[str]

    async def tell(self, told: Iterable[AgentEvent]) -> None:
        """Write one message."""
        message = EventMessage.of(map(event_text, told))
        await self.client.write_stream(SESSION, self.flow.agent_events, "test", message)

    def sessions(self) -> AgentSessionClient:
        """A client that has read nothing yet."""
        return AgentSessionClient(self.client, self.flow)


@pytest_asyncio.fixture
async def told(
    served: Served, new_session_id: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Told]:
    options = AgentSessionOptions(event_stream_capacity_bytes=CAPACITY_BYTES)
    runner = ScriptedRunner(served.state_dir)
    flow = AgentSessionFlow(runner, flow_type=new_session_id(), options=options)
    read_stream = dex.AsyncClient.read_stream
    asked: list[str] = []

    def noted(client: dex.AsyncClient, session: str, stream: Any, token: str, *others: Any) -> Any:
        asked.append(token)
        return read_stream(client, session, stream, token, *others)

    monkeypatch.setattr(dex.AsyncClient, "read_stream", noted)
    async with DexServer(served.server_address).client(agent_registry(flow)) as (client, _):
        yield Told(flow, client, asked)


async def read_on(sessions: AgentSessionClient, count: int, token: str = "") -> list[ReadEvent]:
    """The next ``count`` events behind ``token``."""
    found: list[ReadEvent] = []
    while len(found) < count:
        read = await sessions.read_agent_event(SESSION, token, timeout=DEFAULT_TIMEOUT)
        assert read is not None, f"nothing comes behind {found}"
        found.append(read)
        token = read.resume_token
    return found


async def test_read__asks_the_server_once_a_message(told: Told) -> None:
    every = events("abcd")
    await told.tell(every[:3])
    await told.tell(every[3:])

    read = await read_on(told.sessions(), 4)

    assert [each.event for each in read] == every
    assert told.asked == ["", read[2].resume_token]


async def test_read__goes_on_behind_any_event_with_any_client(told: Told) -> None:
    every = events("abcdef")
    for message in (every[:1], every[1:5], every[5:]):
        await told.tell(message)
    read = await read_on(told.sessions(), 6)

    for number, each in enumerate(read, start=1):
        rest = await read_on(told.sessions(), 6 - number, each.resume_token)
        assert [later.event for later in rest] == every[number:]


async def test_follow__goes_on_in_the_middle_of_a_message(told: Told) -> None:
    every = events("abcdef")
    await told.tell(every[:3])
    await told.tell(every[3:])
    (first,) = await read_on(told.sessions(), 1)

    followed: list[FollowedEvent] = []
    async with aclosing(told.sessions().follow(SESSION, first.resume_token)) as following:
        async for each in following:
            followed.append(each)
            if len(followed) == 5:
                break

    assert [e.event for e in followed if isinstance(e, ReadEvent)] == every[1:]


async def test_read__skips_nothing_of_another_message_where_the_stream_was_cut(told: Told) -> None:
    every = events(["a", "b", *("x" * CAPACITY_BYTES for _ in range(2)), "c", "d"])
    await told.tell(every[:2])
    (begun,) = await read_on(told.sessions(), 1)
    for large in every[2:4]:
        await told.tell([large])
    await told.tell(every[4:])

    rest = await read_on(told.sessions(), 2, begun.resume_token)

    assert [each.event for each in rest] == every[4:]


@pytest.mark.parametrize("taken", [3, 10**30])
async def test_read__begins_a_message_anew_for_a_token_behind_more_than_it_holds(
    told: Told, taken: int
) -> None:
    every = events("abc")
    await told.tell(every)
    *_, last = await read_on(told.sessions(), 3)

    forged = Position("", last.resume_token, taken)
    again = await read_on(told.sessions(), 3, forged.token)

    assert [each.event for each in again] == every


@pytest.mark.parametrize(
    "token",
    ["x", "[", '["1", "2"]', '["1", "2", 0]', '["1", "2", -1]', '["1", "", 1]', "[" * 99_999],
    ids=lambda token: token[:16],
)
async def test_read__leaves_other_tokens_to_the_server(told: Told, token: str) -> None:
    await told.tell(events("a"))

    with pytest.raises(dex.DexServiceError, match="is not a token of this Stream"):
        await told.sessions().read_agent_event(SESSION, token)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=80), st.data())
def test_read_ahead__hands_out_each_event_once_whoever_reads_on(
    sizes: list[int], data: st.DataObject
) -> None:
    """``sizes`` are those of the messages. At any event another client may go on, and one may come back."""
    every = events(map(str, range(sum(sizes))))
    log: list[dex.StreamMessage[EventMessage]] = []
    for size in sizes:
        begun = sum(len(message.value.events()) for message in log)
        message = EventMessage.of(map(event_text, every[begun : begun + size]))
        log.append(dex.StreamMessage(message, str(len(log) + 1), datetime.now(UTC), "test"))
    clients = (ReadAhead(), ReadAhead())

    read: list[AgentEvent] = []
    token = ""
    while token != log[-1].resume_token:
        ahead = clients[data.draw(st.booleans())]
        position = Position.of(token)
        behind = int(position.before or "0")
        found = ahead.next_event(SESSION, position)
        found = found or ahead.first_event(SESSION, position, log[behind])
        read.append(found.event)
        token = found.resume_token

    assert read == every
