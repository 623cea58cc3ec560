"""Tasks on their way: which stream carries which, and when one may be sent.

A task is placed before its mark is durable and sent after. What its frames mean lives elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from attrs import Factory, define
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.state import Offer
from dex_agents_dex.devengine.core.transaction import Transaction
from dex_agents_dex.devengine.server.dispatch import Dispatcher
from dex_agents_dex.devengine.server.roster import PollStream
from dex_agents_dex.devengine.server.timers import Clock


class HandOut(NamedTuple):
    """A task on its way. The message belongs to the Step: while `task_id` is in flight, and no
    longer, it is the one to send."""

    stream: PollStream
    task: pb.PollWorkerTask
    task_id: str


@define(eq=False)
class Delivery:
    _core: Core
    _clock: Clock
    _dispatcher: Dispatcher
    _carriers: dict[str, PollStream] = Factory(dict)  # by task id

    @property
    def carried(self) -> int:
        """How many tasks Workers have, those included whose result nobody wants any more."""
        return len(self._carriers)

    def place_all(self, tx: Transaction, freed: PollStream | None) -> list[HandOut]:
        """Hand the offers of `tx` to streams; `freed` first takes what waits in line for it."""
        placed: list[HandOut] = []
        if freed is not None and (taken := self._dispatcher.next_for(freed)) is not None:
            placed.append(self._hand_out(tx, *taken))
        placed += [
            self._hand_out(tx, stream, offer)
            for offer in tx.offers
            if offer.is_open and (stream := self._dispatcher.place(offer)) is not None
        ]
        return placed

    def send(self, hand_out: HandOut) -> PollStream | None:
        """Send a task whose mark is durable; a stream whose task was cancelled is returned."""
        stream, task, task_id = hand_out
        if stream.is_ended or stream.task_id != task_id:
            return None
        if not self._core.is_in_flight(task_id):
            self.unload(stream)
            return stream
        self._dispatcher.register(stream)
        stream.is_sent = True
        if self._clock.skipped:
            # Workers live on the wall clock.
            deadline = task.deadline.ToDatetime() - self._clock.skipped
            task.deadline.FromDatetime(deadline)
        stream.send(pb.PollWorkerTaskResponse(task=task))
        return None

    def cancel(self, task_id: str) -> None:
        """Tell the Worker of a task that nobody wants its result; its stream stays busy."""
        carrier = self._carriers.get(task_id)
        if carrier is not None and carrier.is_sent:
            cancel = pb.PollWorkerTaskCancelTask(task_id=task_id)
            carrier.send(pb.PollWorkerTaskResponse(cancel_task=cancel))

    def unload(self, stream: PollStream) -> Offer | None:
        """The stream carries nothing any more; what it carried, if anything."""
        self._carriers.pop(stream.task_id, None)
        return stream.unload()

    def _hand_out(self, tx: Transaction, stream: PollStream, offer: Offer) -> HandOut:
        task = self._core.hand_out(tx, offer)
        stream.load(task.task_id, offer)
        self._carriers[task.task_id] = stream
        return HandOut(stream, task, task.task_id)
