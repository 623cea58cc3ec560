"""Which Worker's stream takes which offer.

An offer goes to the longest idle stream of its run's sticky Worker, else of its Flow type; without
one it waits in line, RPCs ahead of Steps. Sending and committing happen elsewhere.

The SDK opens a spare stream whenever one turns busy, and drops the busy one afterwards if the spare
is registered by then: a new stream for each task, which costs more than the task. So a spare is
registered only when it is needed, and the SDK goes on with the stream it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Offer
from dex_agents_dex.devengine.server.roster import (
    BACK_OFF_SECONDS,
    SUSPICION_SECONDS,
    PollStream,
    Worker,
    name_of,
)

_FIRST_PURGE: Final = 256
_REGISTERED: Final = pb.PollWorkerTaskResponse(
    registered=pb.PollWorkerTaskRegistered(supports_unknown_name_rejection=True)
)
_PING: Final = pb.PollWorkerTaskResponse(ping=pb.PollWorkerTaskPing())
_RECONNECT: Final = pb.PollWorkerTaskResponse(reconnect=pb.PollWorkerTaskReconnect())


@define(eq=False)
class _Line:
    """Offers that wait for a stream, in order; closed ones are dropped in passing."""

    rpcs: dict[Offer, None] = Factory(dict)
    steps: dict[Offer, None] = Factory(dict)
    _purge_at: int = _FIRST_PURGE

    def add(self, offer: Offer) -> None:
        (self.rpcs if offer.is_rpc else self.steps)[offer] = None
        if len(self.rpcs) + len(self.steps) >= self._purge_at:
            self.rpcs = {waiting: None for waiting in self.rpcs if waiting.is_open}
            self.steps = {waiting: None for waiting in self.steps if waiting.is_open}
            self._purge_at = max(_FIRST_PURGE, 2 * (len(self.rpcs) + len(self.steps)))

    def may_hold(self, *, steps: bool) -> bool:
        """Whether there may be something for a Worker that takes RPCs alone, or `steps` too."""
        return bool(self.rpcs or (steps and self.steps))

    def take(self, is_acceptable: Callable[[Offer], bool], *, steps: bool) -> Offer | None:
        """The first acceptable RPC, or else Step if `steps` are wanted."""
        for waiting in (self.rpcs, self.steps) if steps else (self.rpcs,):
            closed: list[Offer] = []
            taken = next(_pick(waiting, is_acceptable, closed), None)
            for offer in closed:
                del waiting[offer]
            if taken is not None:
                del waiting[taken]
                return taken
        return None


@define(eq=False)
class Dispatcher:
    """Streams that are idle, and offers that wait. `on_room` is told of streams to feed again."""

    _on_room: Callable[[PollStream], None]
    _workers: dict[str, dict[str, Worker]] = Factory(dict)  # by id, and then by connection
    _idle: dict[str, dict[PollStream, None]] = field(factory=dict)  # by queue, longest idle first
    _spare: dict[str, dict[PollStream, None]] = field(factory=dict)  # idle and not yet registered
    _lines: dict[str, _Line] = Factory(dict)  # by Flow type, and by sticky Worker

    @property
    def open_streams(self) -> int:
        return sum(len(streams) for worker in self._living() for streams in worker.streams.values())

    @property
    def waiting_offers(self) -> int:
        """Open offers in line; one that waits for its sticky Worker too counts once."""
        waiting = {offer for line in self._lines.values() for offer in (*line.rpcs, *line.steps)}
        return sum(offer.is_open for offer in waiting)

    def connect(
        self,
        queue: str,
        worker_id: str,
        connection: str,
        send: Callable[[pb.PollWorkerTaskResponse], None],
    ) -> PollStream:
        """Two processes may go by one id, when one takes the place of the other."""
        lives = self._workers.setdefault(worker_id, {})
        worker = lives.setdefault(connection, Worker(worker_id, connection))
        stream = PollStream(queue, worker, send)
        worker.streams.setdefault(queue, []).append(stream)
        return stream

    def disconnect(self, stream: PollStream) -> None:
        self.withdraw(stream)
        stream.is_ended = True
        worker = stream.worker
        worker.pinged_at = None  # the answer to a ping may have ended with the stream
        siblings = worker.streams[stream.queue]
        siblings.remove(stream)
        if siblings:
            self.register_if_first(siblings[0])
            return
        del worker.streams[stream.queue]
        if worker.streams:
            return
        lives = self._workers[worker.id]
        del lives[worker.connection]
        if not lives:
            del self._workers[worker.id]
            self._lines.pop(worker.id, None)

    def register(self, stream: PollStream) -> None:
        """Tell the Worker that the stream is accepted, if it was not told yet."""
        if stream.is_registered:
            return
        is_idle = stream in self._spare.get(stream.queue, ())
        self.withdraw(stream)
        stream.is_registered = True
        stream.send(_REGISTERED)
        if is_idle:
            self._idle.setdefault(stream.queue, {})[stream] = None

    def register_if_first(self, stream: PollStream) -> None:
        """A Worker is ready once each of its queues has a registered stream."""
        if not any(sibling.is_registered for sibling in stream.worker.streams[stream.queue]):
            self.register(stream)

    def note_life(self, worker: Worker) -> None:
        """A frame of the Worker came in."""
        if worker.pinged_at is not None:
            worker.pinged_at = None
            self.feed(worker)

    def ping(self) -> None:
        """Ask every Worker with an idle stream for a sign of life; busy streams give one anyway."""
        now = asyncio.get_running_loop().time()
        for worker in self._living():
            for stream in _registered(worker):
                if not stream.task_id:
                    stream.send(_PING)
                    worker.pinged_at = worker.pinged_at or now
                    break

    def send_away(self) -> None:
        """Ask every Worker to register anew; on a busy stream it ends what it has first."""
        for worker in self._living():
            for stream in _registered(worker):
                stream.send(_RECONNECT)

    def withdraw(self, stream: PollStream) -> None:
        """Offer nothing more to a stream."""
        for streams in (self._idle, self._spare):
            waiting = streams.get(stream.queue)
            if waiting is not None:
                waiting.pop(stream, None)
                if not waiting:
                    del streams[stream.queue]

    def place(self, offer: Offer) -> PollStream | None:
        """The stream that takes the offer now; None puts the offer in line."""
        now = asyncio.get_running_loop().time()
        sticky_worker = offer.run.sticky_worker
        for queue in (sticky_worker, offer.run.flow_type):
            for streams in (self._idle, self._spare):
                for stream in streams.get(queue, ()):
                    if stream.worker.accepts(offer, now):
                        self.withdraw(stream)
                        return stream
        self._line(offer.run.flow_type).add(offer)
        if sticky_worker in self._workers:
            self._line(sticky_worker).add(offer)
        return None

    def next_for(self, freed: PollStream) -> tuple[PollStream, Offer] | None:
        """The offer in line that an idle stream takes, or an older idle one of its Worker for it.

        The SDK retires a stream that is done while a registered one of its queue is idle; a task
        for the retiring one would be lost on the way.
        """
        now = asyncio.get_running_loop().time()
        worker = freed.worker
        is_sticky_queue = freed.queue == worker.id

        def is_acceptable(offer: Offer) -> bool:
            if is_sticky_queue and offer.run.sticky_worker != worker.id:
                return False
            return worker.accepts(offer, now)

        line = self._lines.get(freed.queue)
        takes_steps = worker.takes_steps(now)
        offer = line.take(is_acceptable, steps=takes_steps) if line is not None else None
        older = self._longest_idle(freed) if offer is not None else None
        if older is not None:
            self.withdraw(older)
        if (offer is None or older is not None) and not freed.is_ended:
            streams = self._idle if freed.is_registered else self._spare
            streams.setdefault(freed.queue, {})[freed] = None
        return None if offer is None else (older or freed, offer)

    def feed(self, worker: Worker) -> None:
        """Look at the idle streams of a Worker again, now that it may take more."""
        now = asyncio.get_running_loop().time()
        for queue, streams in tuple(worker.streams.items()):
            for stream in tuple(streams):
                line = self._lines.get(queue)
                if line is None or not line.may_hold(steps=worker.takes_steps(now)):
                    break
                self._on_room(stream)

    def note_no_room(self, stream: PollStream, *, is_step: bool) -> None:
        """Leave the stream alone for a moment, and on a repeat the whole Worker."""
        loop = asyncio.get_running_loop()
        loop.call_later(BACK_OFF_SECONDS, self._on_room, stream)
        worker = stream.worker
        if is_step and worker.refuse_step(loop.time()):
            loop.call_at(worker.closed_to_steps_until, self.feed, worker)
            loop.call_at(worker.room_known_until, self.feed, worker)

    def note_unknown(self, stream: PollStream, offer: Offer) -> None:
        """The Worker does not know the Step or RPC; ask others, until it connects anew."""
        stream.worker.unknown.add(name_of(offer))

    def note_cut(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        worker.closed_until = loop.time() + SUSPICION_SECONDS
        loop.call_at(worker.closed_until, self.feed, worker)

    def _longest_idle(self, stream: PollStream) -> PollStream | None:
        """Of the registered ones that serve the same queue for the same Worker."""
        idle = self._idle.get(stream.queue, ())
        return next((other for other in idle if other.worker is stream.worker), None)

    def _living(self) -> Iterator[Worker]:
        for lives in self._workers.values():
            yield from lives.values()

    def _line(self, queue: str) -> _Line:
        return self._lines.setdefault(queue, _Line())


def _pick(
    waiting: dict[Offer, None], is_acceptable: Callable[[Offer], bool], closed: list[Offer]
) -> Iterator[Offer]:
    for offer in waiting:
        if not offer.is_open:
            closed.append(offer)
        elif is_acceptable(offer):
            yield offer


def _registered(worker: Worker) -> Iterator[PollStream]:
    for streams in worker.streams.values():
        yield from (stream for stream in streams if stream.is_registered)
