"""A Worker as its streams show it: what it carries, and what it takes at present."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Offer

BACK_OFF_SECONDS: Final = 0.02  # after a Worker said that it has no room
SUSPICION_SECONDS: Final = 0.1  # after a cut: the Worker's other streams may only look alive
PONG_SECONDS: Final = 5.0  # in which a Worker that can take a task answers a ping
ROOM_KNOWN_SECONDS: Final = 1.0  # since its last refusal; a Worker may have more room later
_CLOCK_RESOLUTION_SECONDS: Final = 1e-6  # a loop may call that much too early


@define(eq=False)
class Worker:
    """One life of a Worker, from its first stream to the end of its last.

    It does not say how many Steps it takes at once. One refusal says little: a stream that is about
    to end refuses too. A second one soon after is believed, and the Steps that the Worker carries
    then are its room for a while. All times are the event loop's.
    """

    id: str
    connection: str
    streams: dict[str, list[PollStream]] = Factory(dict)  # by queue
    steps: int = 0  # that it carries
    unknown: set[tuple[bool, str, str]] = Factory(set)
    pinged_at: float | None = None  # and not heard of since
    closed_until: float = 0.0
    closed_to_steps_until: float = 0.0
    room_known_until: float = 0.0
    _room: int | None = None

    def accepts(self, offer: Offer, loop_time: float) -> bool:
        if not (self._takes_anything(loop_time) if offer.is_rpc else self.takes_steps(loop_time)):
            return False
        return not self.unknown or name_of(offer) not in self.unknown

    def takes_steps(self, loop_time: float) -> bool:
        """Whether it takes Steps at present, those that it knows."""
        return self._takes_anything(loop_time) and self._has_room(
            loop_time + _CLOCK_RESOLUTION_SECONDS
        )

    def note_finished(self) -> bool:
        """It has room again; True if it is known to have had little."""
        self.closed_to_steps_until = 0.0
        return self._room is not None

    def refuse_step(self, loop_time: float) -> bool:
        """Note that it refused a Step for want of room; True when that is believed."""
        is_repeated = loop_time < self.room_known_until
        self.room_known_until = loop_time + ROOM_KNOWN_SECONDS
        if is_repeated:
            self._room = max(1, self.steps)
            self.closed_to_steps_until = loop_time + BACK_OFF_SECONDS
        else:
            self._room = None
        return is_repeated

    def _takes_anything(self, loop_time: float) -> bool:
        loop_time += _CLOCK_RESOLUTION_SECONDS
        return loop_time >= self.closed_until and not self._is_mute(loop_time)

    def _is_mute(self, loop_time: float) -> bool:
        """Its process may be stopped, or its event loop blocked."""
        return self.pinged_at is not None and loop_time - self.pinged_at >= PONG_SECONDS

    def _has_room(self, loop_time: float) -> bool:
        if loop_time < self.closed_to_steps_until:
            return False
        if loop_time >= self.room_known_until:
            self._room = None
        return self._room is None or self.steps < self._room


@define(eq=False)
class PollStream:
    """One stream of a Worker: it carries one task at a time."""

    queue: str
    worker: Worker
    send: Callable[[pb.PollWorkerTaskResponse], None]
    is_registered: bool = False
    is_ended: bool = False
    task_id: str = ""
    offer: Offer | None = None  # what its task was
    is_sent: bool = False
    frames: int = 0  # received for the current task

    def load(self, task_id: str, offer: Offer) -> None:
        self.task_id = task_id
        self.offer = offer
        self.is_sent = False
        self.frames = 0
        if not offer.is_rpc:
            self.worker.steps += 1

    def unload(self) -> Offer | None:
        """Carry nothing any more; what it carried, if anything."""
        offer = self.offer
        self.task_id = ""
        self.offer = None
        if offer is not None and not offer.is_rpc:
            self.worker.steps -= 1
        return offer


def name_of(offer: Offer) -> tuple[bool, str, str]:
    """What a Worker knows or does not know: an RPC or a Step of a Flow type."""
    return offer.is_rpc, offer.run.flow_type, offer.name
