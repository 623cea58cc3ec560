"""Which Worker's stream takes which offer.

An offer goes to the longest idle stream of its run's sticky Worker, else of its Flow type; without
one it waits in line, RPCs ahead of Steps. Sending and committing happen elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Offer

BACK_OFF_SECONDS: Final = 0.02  # after a Worker said that it has no room
SUSPICION_SECONDS: Final = 0.1  # after a cut: the Worker's other streams may only look alive
_FIRST_PURGE: Final = 256


@define(eq=False)
class Worker:
    """One life of a Worker, from its first stream to the end of its last."""

    id: str
    streams: int = 0
    refusals: int = 0  # of Steps, since it last finished something
    closed_until: float = 0.0  # event loop time
    closed_to_steps_until: float = 0.0
    unknown: set[tuple[bool, str, str]] = Factory(set)

    def accepts(self, offer: Offer, loop_time: float) -> bool:
        if loop_time < self.closed_until:
            return False
        if not offer.is_rpc and loop_time < self.closed_to_steps_until:
            return False
        return not self.unknown or _name_of(offer) not in self.unknown


@define(eq=False)
class PollStream:
    """One stream of a Worker: it carries one task at a time."""

    queue: str
    worker: Worker
    send: Callable[[pb.PollWorkerTaskResponse], None]
    task_id: str = ""
    is_sent: bool = False
    is_ended: bool = False
    frames: int = 0  # received for the current task


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

    def take(self, is_acceptable: Callable[[Offer], bool]) -> Offer | None:
        for waiting in (self.rpcs, self.steps):
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
    _workers: dict[str, Worker] = Factory(dict)
    _idle: dict[str, dict[PollStream, None]] = field(factory=dict)
    _lines: dict[str, _Line] = Factory(dict)  # by Flow type, and by sticky Worker

    def connect(
        self, queue: str, worker_id: str, send: Callable[[pb.PollWorkerTaskResponse], None]
    ) -> PollStream:
        worker = self._workers.setdefault(worker_id, Worker(worker_id))
        worker.streams += 1
        return PollStream(queue, worker, send)

    def disconnect(self, stream: PollStream) -> None:
        self.withdraw(stream)
        stream.is_ended = True
        stream.worker.streams -= 1
        if stream.worker.streams == 0:
            self._workers.pop(stream.worker.id, None)
            self._lines.pop(stream.worker.id, None)

    def withdraw(self, stream: PollStream) -> None:
        """Offer nothing more to a stream."""
        idle = self._idle.get(stream.queue)
        if idle is not None:
            idle.pop(stream, None)
            if not idle:
                del self._idle[stream.queue]

    def place(self, offer: Offer) -> PollStream | None:
        """The stream that takes the offer now; None puts the offer in line."""
        now = asyncio.get_running_loop().time()
        sticky_worker = offer.run.sticky_worker
        for queue in (sticky_worker, offer.run.flow_type):
            for stream in self._idle.get(queue, ()):
                if stream.worker.accepts(offer, now):
                    self.withdraw(stream)
                    return stream
        self._line(offer.run.flow_type).add(offer)
        if sticky_worker in self._workers:
            self._line(sticky_worker).add(offer)
        return None

    def next_for(self, stream: PollStream) -> Offer | None:
        """The offer that an idle stream takes; None leaves the stream waiting for one."""
        now = asyncio.get_running_loop().time()
        is_sticky_queue = stream.queue == stream.worker.id

        def is_acceptable(offer: Offer) -> bool:
            if is_sticky_queue and offer.run.sticky_worker != stream.worker.id:
                return False
            return stream.worker.accepts(offer, now)

        line = self._lines.get(stream.queue)
        offer = line.take(is_acceptable) if line is not None else None
        if offer is None and not stream.is_ended:
            self._idle.setdefault(stream.queue, {})[stream] = None
        return offer

    def note_finished(self, stream: PollStream) -> None:
        """The Worker finished something, so it has room again."""
        worker = stream.worker
        worker.refusals = 0
        if worker.closed_to_steps_until:
            worker.closed_to_steps_until = 0.0
            self._feed(worker)

    def note_no_room(self, stream: PollStream, offer_is_rpc: bool) -> None:
        """Leave the stream alone for a moment; on a repeat, the whole Worker."""
        worker = stream.worker
        loop = asyncio.get_running_loop()
        if not offer_is_rpc:
            worker.refusals += 1
            if worker.refusals > 1:
                worker.closed_to_steps_until = loop.time() + BACK_OFF_SECONDS
                loop.call_later(BACK_OFF_SECONDS, self._feed, worker)
        loop.call_later(BACK_OFF_SECONDS, self._on_room, stream)

    def note_unknown(self, stream: PollStream, offer: Offer) -> None:
        """The Worker does not know the Step or RPC; ask others, until it connects anew."""
        stream.worker.unknown.add(_name_of(offer))

    def note_cut(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        worker.closed_until = loop.time() + SUSPICION_SECONDS
        loop.call_later(SUSPICION_SECONDS, self._feed, worker)

    def _feed(self, worker: Worker) -> None:
        for streams in tuple(self._idle.values()):
            for stream in tuple(streams):
                if stream.worker is worker:
                    self._on_room(stream)

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


def _name_of(offer: Offer) -> tuple[bool, str, str]:
    return offer.is_rpc, offer.run.flow_type, offer.name
