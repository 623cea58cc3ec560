"""The one place where commands meet their consequences.

A command changes the core and fills a transaction; the hub hands its offers to Workers, makes the
rows durable, and only then sends tasks, answers callers and wakes those who wait.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.state import Offer, RpcCall, Run
from dex_agents_dex.devengine.core.transaction import (
    RpcReply,
    Settings,
    TimerKey,
    Transaction,
)
from dex_agents_dex.devengine.server.dispatch import Dispatcher, PollStream
from dex_agents_dex.devengine.server.library import Library
from dex_agents_dex.devengine.server.message_log import MessageLog, StreamKey
from dex_agents_dex.devengine.server.timers import Clock, TimerQueue
from dex_agents_dex.devengine.server.waiters import Waiters
from dex_agents_dex.devengine.store import Store

_LOGGER = logging.getLogger(__name__)
_LAST_TASK = object()  # what `drain` waits for


class _HandOut(NamedTuple):
    """A task on its way. The message belongs to the Step: while `task_id` is in flight, and no
    longer, it is the one to send."""

    stream: PollStream
    task: pb.PollWorkerTask
    task_id: str


@define(eq=False)
class Hub:
    """The live engine: core, store, Workers, timers and waiters."""

    core: Core
    store: Store
    settings: Settings
    log: MessageLog
    clock: Clock = Factory(Clock)
    waiters: Waiters = Factory(Waiters)
    counts: Counter[str] = Factory(Counter)
    is_stopping: bool = False
    library: Library = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    timers: TimerQueue = field(init=False)
    _replies: dict[RpcCall, asyncio.Future[RpcReply]] = Factory(dict)
    _carriers: dict[str, PollStream] = Factory(dict)  # by task id
    _taken: dict[str, Offer] = Factory(dict)  # by task id
    _loads: set[asyncio.Task[Run | None]] = Factory(set)

    def __attrs_post_init__(self) -> None:
        self.dispatcher = Dispatcher(self.feed)
        self.timers = TimerQueue(self.clock, self._fire)
        self.library = Library(self.core, self.store, self.waiters, self.resume)

    # --- transactions -------------------------------------------------------------------------

    def begin(self) -> Transaction:
        now = self.clock.now()
        return Transaction(now, _new_id, self.settings, self.core.index_names)

    def commit(
        self,
        tx: Transaction,
        *,
        freed: PollStream | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Make `tx` durable, then let its consequences out, `then` last.

        `freed` is a stream that this command made idle; it may take an offer of the same `tx`.
        """
        hand_outs: list[_HandOut] = []
        if not self.is_stopping:
            if freed is not None and (waiting := self.dispatcher.next_for(freed)) is not None:
                hand_outs.append(self._hand_out(tx, freed, waiting))
            hand_outs += [
                self._hand_out(tx, stream, offer)
                for offer in tx.offers
                if offer.is_open and (stream := self.dispatcher.place(offer)) is not None
            ]
        for key, due in tx.timers.items():
            self.timers.set(key, due)
        for run_key in tx.changed:
            self.library.note_use(run_key)

        def release() -> None:
            self._release(tx, hand_outs)
            if then is not None:
                then()

        rows = tx.seal()
        if rows or not self.store.is_settled:
            if rows or then is not None or hand_outs or tx.replies or tx.changed:
                self.store.submit(rows, release)
        else:
            release()

    async def committed(self, tx: Transaction) -> None:
        """Commit, and return when everything is durable and released."""
        done = asyncio.get_running_loop().create_future()
        self.commit(tx, then=lambda: None if done.done() else done.set_result(None))
        await done

    def _release(self, tx: Transaction, hand_outs: list[_HandOut]) -> None:
        for task_id in tx.cancelled_task_ids:
            carrier = self._carriers.get(task_id)
            if carrier is not None and carrier.is_sent:
                cancel = pb.PollWorkerTaskCancelTask(task_id=task_id)
                carrier.send(pb.PollWorkerTaskResponse(cancel_task=cancel))
        for hand_out in hand_outs:
            self._send_task(hand_out)
        for call, reply in tx.replies:
            answer = self._replies.pop(call, None)
            if answer is not None and not answer.done():
                answer.set_result(reply)
        for run_key in tx.changed:
            self.waiters.wake(run_key)

    def resume(self, run: Run) -> None:
        tx = self.begin()
        self.core.resume(tx, run)
        self.commit(tx)

    async def drain(self, grace: timedelta) -> None:
        """Return when no Worker has a task any more, or when `grace` is over."""
        end = asyncio.get_running_loop().time() + grace.total_seconds()
        while self._carriers and (left := end - asyncio.get_running_loop().time()) > 0:
            await self.waiters.wait(_LAST_TASK, left)

    # --- RPCs ---------------------------------------------------------------------------------

    async def invoke_rpc(self, request: pb.InvokeRPCRequest) -> pb.InvokeRPCResponse:
        """Run an RPC to its end. A caller that goes away does not stop it."""
        run = await self.library.find(request.flow_id, request.run_id)
        self.counts["rpcs"] += 1
        tx = self.begin()
        call = self.core.open_rpc(tx, run, request)
        answer: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()
        self._replies[call] = answer
        self.commit(tx)
        reply = await asyncio.shield(answer)
        if isinstance(reply, Refusal):
            raise reply
        return reply

    # --- Workers ------------------------------------------------------------------------------

    def connect(
        self, queue: str, worker_id: str, send: Callable[[pb.PollWorkerTaskResponse], None]
    ) -> PollStream:
        self.counts["streams_opened"] += 1
        stream = self.dispatcher.connect(queue, worker_id, send)
        self.feed(stream)
        self.dispatcher.register_if_first(stream)
        return stream

    def feed(self, stream: PollStream) -> None:
        """Give an idle stream what waits in line for it, or let it wait."""
        if stream.is_ended or stream.task_id or self.is_stopping:
            return
        self.dispatcher.withdraw(stream)
        self.commit(self.begin(), freed=stream)

    def finish(self, stream: PollStream, frame: pb.PollWorkerTaskFrame) -> None:
        """A final frame: apply it, and use the stream again."""
        self._unload(stream)
        tx = self.begin()
        self.core.finish(tx, stream.worker.id, frame)
        self.commit(tx, freed=stream)
        self.dispatcher.note_finished(stream)

    def heartbeat(self, stream: PollStream, beat: pb.StepMethodHeartbeat | None) -> None:
        tx = self.begin()
        self.core.heartbeat(tx, stream.task_id, beat)
        rows = tx.seal()
        if rows:
            self.store.submit(rows, _nothing)

    def write_stream(self, stream: PollStream, write: pb.StepStreamWrite) -> None:
        """Append at once; whatever becomes of the attempt, the message stays."""
        origin = self.core.stream_source(stream.task_id)
        self.heartbeat(stream, None)
        if origin is None:
            return
        run, step_id = origin
        key = StreamKey(run.flow_type, write.stream_name, run.flow_id)
        try:
            self.append_to_stream(key, write.value, f"#{step_id}", write.stream_capacity_bytes)
        except Refusal as refusal:
            _LOGGER.warning("dropped a Stream write of %s: %s", step_id, refusal)

    def append_to_stream(
        self, key: StreamKey, value: pb.Value, source: str, capacity_bytes: int
    ) -> None:
        self.log.append(key, value, source, self.clock.now(), capacity_bytes)
        self.waiters.wake(key)

    def reject(self, stream: PollStream, reject: pb.PollWorkerTaskReject) -> None:
        """A Worker declined its task, which never started."""
        self.counts["tasks_rejected"] += 1
        offer = self._taken.get(reject.task_id)
        self._unload(stream)
        is_full = reject.reason == pb.POLL_WORKER_TASK_REJECT_REASON_NO_CAPACITY
        if offer is not None:
            if is_full:
                self.dispatcher.note_no_room(stream, offer.is_rpc)
            else:
                self.dispatcher.note_unknown(stream, offer)
        tx = self.begin()
        self.core.take_back(tx, reject.task_id)
        self.commit(tx, freed=None if is_full and offer is not None else stream)

    def disconnect(self, stream: PollStream, *, is_cut: bool) -> None:
        """A stream ended; whatever it carried goes on elsewhere."""
        task_id = stream.task_id
        self._unload(stream)
        self.dispatcher.disconnect(stream)
        if self.is_stopping:
            return
        if is_cut:
            self.counts["streams_cut"] += 1
            self.dispatcher.note_cut(stream.worker)
        if not task_id or not self.core.is_in_flight(task_id):
            return
        tx = self.begin()
        if not stream.is_sent or (not is_cut and stream.frames == 0):
            self.core.take_back(tx, task_id)
        else:
            self.core.cut(tx, task_id, stream.worker.id, has_frames=stream.frames > 0)
        self.commit(tx)

    # --- inside -------------------------------------------------------------------------------

    def _hand_out(self, tx: Transaction, stream: PollStream, offer: Offer) -> _HandOut:
        task = self.core.hand_out(tx, offer)
        stream.task_id = task.task_id
        stream.is_sent = False
        stream.frames = 0
        self._carriers[task.task_id] = stream
        self._taken[task.task_id] = offer
        return _HandOut(stream, task, task.task_id)

    def _send_task(self, hand_out: _HandOut) -> None:
        """Send a task whose mark is durable, unless it was cancelled or its stream ended."""
        stream, task, task_id = hand_out
        if stream.is_ended or stream.task_id != task_id:
            return
        if not self.core.is_in_flight(task_id):
            self._unload(stream)
            self.feed(stream)
            return
        self.dispatcher.register(stream)
        stream.is_sent = True
        self.counts["tasks_sent"] += 1
        if self.clock.skipped:
            # Workers live on the wall clock.
            deadline = task.deadline.ToDatetime() - self.clock.skipped
            task.deadline.FromDatetime(deadline)
        stream.send(pb.PollWorkerTaskResponse(task=task))

    def _unload(self, stream: PollStream) -> None:
        self._carriers.pop(stream.task_id, None)
        self._taken.pop(stream.task_id, None)
        stream.task_id = ""
        if not self._carriers:
            self.waiters.wake(_LAST_TASK)

    def _fire(self, key: TimerKey) -> None:
        if key.run_key not in self.core.runs:
            task = asyncio.get_running_loop().create_task(self.library.load(key.run_key))
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)
            return  # taking the run up sets its timers anew
        tx = self.begin()
        self.core.fire_timer(tx, key)
        self.commit(tx)


def _new_id() -> str:
    return secrets.token_hex(16)


def _nothing() -> None:
    pass
