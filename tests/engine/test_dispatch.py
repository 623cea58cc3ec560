"""Which stream of which Worker takes an offer, and what a Worker's refusals tell about its room."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Offer, Phase, RpcCall, Run, StepExecution
from dex_agents_dex.devengine.server.dispatch import Dispatcher
from dex_agents_dex.devengine.server.roster import (
    BACK_OFF_SECONDS,
    PONG_SECONDS,
    ROOM_KNOWN_SECONDS,
    PollStream,
    Worker,
)

TYPE = "Dispatched"


@pytest.fixture
def fed() -> list[PollStream]:
    """The streams that the dispatcher wants to be looked at again."""
    return []


@pytest.fixture
def dispatcher(fed: list[PollStream]) -> Dispatcher:
    return Dispatcher(fed.append)


def _run(flow_id: str = "f") -> Run:
    return Run(
        1, flow_id, "run", TYPE, "r", datetime(2030, 1, 1, tzinfo=UTC), pb.StartFlowRequest()
    )


def _step(flow_id: str = "f") -> Offer:
    step = StepExecution(1, "Only", 1, "__start__", None, pb.StepOptions(), Phase.EXECUTE)
    return Offer(_run(flow_id), step)


def _rpc() -> Offer:
    return Offer(_run(), RpcCall(pb.InvokeRPCRequest(rpc_name="ask"), timedelta(seconds=60)))


def _idle(dispatcher: Dispatcher, worker: str) -> PollStream:
    """A registered stream that waits for a task."""
    stream = dispatcher.connect(TYPE, worker, "connection", lambda _: None)
    dispatcher.register(stream)
    assert dispatcher.next_for(stream) is None
    return stream


async def test_place__takes_the_longest_idle_stream(dispatcher: Dispatcher) -> None:
    first, second, third = (_idle(dispatcher, name) for name in ("a", "b", "a"))
    dispatcher.withdraw(first)
    assert dispatcher.next_for(first) is None  # idle again, and the last one now
    assert [dispatcher.place(_step()) for _ in range(4)] == [second, third, first, None]


async def test_freed_stream__leaves_what_is_in_line_to_an_older_idle_one(
    dispatcher: Dispatcher,
) -> None:
    """The SDK retires the one that has just finished, as long as another one is idle."""
    busy, refusing = _idle(dispatcher, "a"), _idle(dispatcher, "a")
    offers = [_step(), _step("g")]
    assert dispatcher.place(offers[0]) is busy
    busy.load("task", offers[0])
    now = asyncio.get_running_loop().time()
    assert [refusing.worker.refuse_step(now) for _ in range(2)] == [False, True]
    assert dispatcher.place(offers[1]) is None
    busy.unload()
    refusing.worker.note_finished()
    assert dispatcher.next_for(busy) == (refusing, offers[1])
    assert dispatcher.place(_rpc()) is busy


async def test_cut__keeps_tasks_from_the_other_streams_of_the_same_worker(
    dispatcher: Dispatcher,
) -> None:
    """For a moment they may only look alive: the Worker's process may be gone."""
    offer = _rpc()
    sibling = _idle(dispatcher, "a")
    dispatcher.note_cut(sibling.worker)
    assert dispatcher.place(offer) is None
    other = dispatcher.connect(TYPE, "b", "connection", lambda _: None)
    assert dispatcher.next_for(other) == (other, offer)


async def test_ping__goes_to_an_idle_registered_stream_of_each_worker(
    dispatcher: Dispatcher, fed: list[PollStream]
) -> None:
    sent: list[tuple[str, str | None]] = []

    def connect(name: str) -> PollStream:
        return dispatcher.connect(
            TYPE,
            name[0],
            "connection",
            lambda frame: sent.append((name, frame.WhichOneof("frame"))),
        )

    busy, idle, spare, other = (connect(name) for name in ("a1", "a2", "a3", "b1"))
    for stream in (busy, idle, other):
        dispatcher.register(stream)
    busy.load("task", _step())
    sent.clear()
    dispatcher.ping()
    assert sent == [("a2", "ping"), ("b1", "ping")]
    dispatcher.place(_step())
    dispatcher.note_life(idle.worker)
    assert set(fed) == {busy, idle, spare}
    assert (idle.worker.pinged_at, other.worker.pinged_at is None) == (None, False)


async def test_feed__looks_only_where_something_waits(
    dispatcher: Dispatcher, fed: list[PollStream]
) -> None:
    stream = _idle(dispatcher, "a")
    dispatcher.feed(stream.worker)
    assert fed == []
    dispatcher.withdraw(stream)
    dispatcher.place(_step())
    dispatcher.feed(stream.worker)
    assert fed == [stream]


async def test_feed__leaves_a_worker_alone_that_has_no_room(
    dispatcher: Dispatcher, fed: list[PollStream]
) -> None:
    stream = _idle(dispatcher, "a")
    dispatcher.withdraw(stream)
    dispatcher.place(_step())
    for _ in range(2):
        stream.worker.refuse_step(asyncio.get_running_loop().time())
    dispatcher.feed(stream.worker)
    assert fed == []
    dispatcher.place(_rpc())
    dispatcher.feed(stream.worker)
    assert fed == [stream]


def _carrying(steps: int) -> Worker:
    worker = Worker("w", "connection")
    for number in range(steps):
        PollStream(TYPE, worker, lambda _: None).load(f"task-{number}", _step())
    return worker


def test_worker__that_answers_no_ping_takes_nothing_until_it_is_heard_of() -> None:
    worker = _carrying(0)
    worker.pinged_at = 10.0
    asked = [(_step(), 10.1), (_step(), 10.0 + PONG_SECONDS), (_rpc(), 10.0 + PONG_SECONDS)]
    assert [worker.accepts(*each) for each in asked] == [True, False, False]
    worker.pinged_at = None
    assert worker.accepts(_step(), 10.0 + PONG_SECONDS)


def test_worker__is_not_believed_to_be_full_after_one_refusal() -> None:
    worker = _carrying(3)
    assert not worker.refuse_step(10.0)
    assert worker.accepts(_step(), 10.0)


def test_worker__that_refused_twice_takes_nothing_for_a_moment_but_rpcs() -> None:
    worker = _carrying(0)
    worker.refuse_step(10.0)
    assert worker.refuse_step(10.1)
    asked = [(_step(), 10.1), (_rpc(), 10.1), (_step(), 10.1 + BACK_OFF_SECONDS)]
    assert [worker.accepts(*each) for each in asked] == [False, True, True]


def test_worker__takes_no_more_than_it_carried_when_it_refused() -> None:
    worker = _carrying(2)
    last = PollStream(TYPE, worker, lambda _: None)
    last.load("last", _step())
    worker.refuse_step(10.0)
    worker.refuse_step(10.1)
    assert not worker.accepts(_step(), 10.1 + BACK_OFF_SECONDS)
    last.unload()
    worker.note_finished()
    assert worker.accepts(_step(), 10.1 + BACK_OFF_SECONDS)


def test_worker__may_have_more_room_a_second_later() -> None:
    worker = _carrying(2)
    worker.refuse_step(10.0)
    worker.refuse_step(10.1)
    assert worker.accepts(_step(), 10.1 + ROOM_KNOWN_SECONDS)
    assert not worker.refuse_step(12.0)


def test_worker__that_finishes_something_is_asked_again_at_once() -> None:
    worker = _carrying(0)
    worker.refuse_step(10.0)
    worker.refuse_step(10.0)
    assert worker.note_finished()
    assert worker.accepts(_step(), 10.0)
