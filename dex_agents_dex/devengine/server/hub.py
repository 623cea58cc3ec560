"""The one place where commands meet their consequences.

A command changes the core and fills a transaction; the hub hands its offers to Workers, makes the
rows durable, and only then sends tasks, answers callers and wakes those who wait.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.broken import BrokenRun
from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.errors import Refusal, no_flow, stopping
from dex_agents_dex.devengine.core.state import Offer, RpcCall, Run
from dex_agents_dex.devengine.core.transaction import (
    Need,
    RpcReply,
    Settings,
    TimerKey,
    Transaction,
)
from dex_agents_dex.devengine.server.delivery import Delivery, HandOut
from dex_agents_dex.devengine.server.dispatch import Dispatcher
from dex_agents_dex.devengine.server.library import Library
from dex_agents_dex.devengine.server.message_log import MessageLog, StreamKey
from dex_agents_dex.devengine.server.roster import PollStream
from dex_agents_dex.devengine.server.timers import Clock, TimerQueue
from dex_agents_dex.devengine.server.waiters import Waiters
from dex_agents_dex.devengine.store import Store

_LOGGER = logging.getLogger(__name__)
_LAST_TASK: Final = object()  # what `drain` waits for

T = TypeVar("T")


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
    _delivery: Delivery = field(init=False)
    _replies: dict[RpcCall, asyncio.Future[RpcReply]] = Factory(dict)
    _loads: set[asyncio.Task[object]] = Factory(set)
    _expelled: set[int] = Factory(set)

    def __attrs_post_init__(self) -> None:
        self.dispatcher = Dispatcher(self.feed)
        self.timers = TimerQueue(self.clock, self._fire, self._allow_for_jump)
        self.clock.has_jumped()  # from now on
        self.library = Library(
            self.core,
            self.store,
            self.waiters,
            self.settings.map_bytes_in_memory,
            self.resume,
        )
        self._delivery = Delivery(self.core, self.clock, self.dispatcher)

    # --- commands -----------------------------------------------------------------------------

    def begin(self) -> Transaction:
        now = self.clock.now()
        return Transaction(now, _new_id, self.settings, self.core.index_names)

    def command(self, act: Callable[[Transaction], T]) -> tuple[Transaction, T]:
        """Run a client's command; what it filled is still to be committed."""
        tx = self.begin()
        try:
            return tx, act(tx)
        except BrokenRun as broken:
            self._expel(broken)
            raise

    def attempt(self, act: Callable[[Transaction], None]) -> Transaction:
        """Run a command that nobody waits for; a broken one leaves nothing to commit."""
        tx = self.begin()
        try:
            act(tx)
        except BrokenRun as broken:
            self._expel(broken)
            return self.begin()
        return tx

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
        hand_outs = [] if self.is_stopping else self._delivery.place_all(tx, freed)
        for key, due in tx.timers.items():
            self.timers.set(key, due)
        for run_key in tx.changed:
            self.library.note_use(run_key)

        def release() -> None:
            self._release(tx, hand_outs)
            if then is not None:
                then()

        sealed = tx.seal()
        for need in tx.needs:
            self._spawn(self._supply(need))
        if sealed or not self.store.is_settled:
            if sealed or then is not None or hand_outs or tx.replies or tx.changed:
                self.store.submit(sealed, release)
        else:
            release()

    async def committed(self, tx: Transaction) -> None:
        """Commit, and return when everything is durable and released."""
        done = asyncio.get_running_loop().create_future()
        self.commit(tx, then=lambda: None if done.done() else done.set_result(None))
        await done

    def resume(self, run: Run) -> None:
        """Take up a run that was read from the store."""
        self.commit(self.attempt(lambda tx: self.core.resume(tx, run)))

    async def drain(self, grace: timedelta) -> None:
        """Return when no Worker has a task any more, or when `grace` is over."""
        end = asyncio.get_running_loop().time() + grace.total_seconds()
        while self._delivery.carried:
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not await self.waiters.wait(_LAST_TASK, left):
                return

    def dismiss(self) -> None:
        """End what clients wait for: the engine is stopping."""
        reason = stopping()
        self.waiters.close(reason)
        for call in tuple(self._replies):
            self._reply(call, reason)

    # --- RPCs and Streams ---------------------------------------------------------------------

    async def invoke_rpc(self, request: pb.InvokeRPCRequest) -> pb.InvokeRPCResponse:
        """Run an RPC to its end. A caller that goes away does not stop it."""
        run = await self.library.find(request.flow_id, request.run_id)
        self.counts["rpcs"] += 1
        tx, call = self.command(lambda tx: self.core.open_rpc(tx, run, request))
        answer: asyncio.Future[RpcReply] = asyncio.get_running_loop().create_future()
        self._replies[call] = answer
        self.commit(tx)
        reply = await asyncio.shield(answer)
        if isinstance(reply, Refusal):
            raise reply
        return reply

    def append_to_stream(
        self, key: StreamKey, value: pb.Value, source: str, capacity_bytes: int
    ) -> None:
        """Raise `Refusal` for a message above the limit."""
        self.log.append(key, value, source, self.clock.now(), capacity_bytes)
        self.waiters.wake(key)

    async def forget(self, flow_id: str) -> None:
        """Drop every run of a Flow and its Streams, from memory and from the file; raise `Refusal` if there is none."""
        runs = await self.library.runs_of(flow_id)
        if not runs:
            raise no_flow(flow_id)
        for run in runs:
            tx, calls = self.command(partial(self.core.drop_run, run=run))
            await self.committed(tx)
            for call in calls:
                self._reply(call, no_flow(flow_id))
        self.log.forget(flow_id)
        await self.store.scrub()

    async def drop(self, closed_run_keys: Iterable[int]) -> None:
        """Drop closed runs and all that they stored; an RPC that reads one is told that it is gone."""
        tx = self.begin()
        calls: list[tuple[RpcCall, Refusal]] = []
        for run_key in closed_run_keys:
            run = self.core.runs.get(run_key)
            if run is None:
                tx.write(rows.DropRun(run_key))
            else:
                gone = no_flow(run.flow_id)
                calls += [(call, gone) for call in self.core.drop_run(tx, run)]
        await self.committed(tx)
        for call, gone in calls:
            self._reply(call, gone)

    # --- streams of Workers -------------------------------------------------------------------

    def feed(self, stream: PollStream) -> None:
        """Give an idle stream what waits in line for it, or let it wait."""
        if stream.is_ended or stream.task_id or self.is_stopping:
            return
        self.dispatcher.withdraw(stream)
        self.commit(self.begin(), freed=stream)

    def unload(self, stream: PollStream) -> Offer | None:
        """Take its task off a stream, if it has one; the offer that the task was."""
        offer = self._delivery.unload(stream)
        if not self._delivery.carried:
            self.waiters.wake(_LAST_TASK)
        return offer

    def holdings(self) -> dict[str, int]:
        """What is in memory now, by name."""
        return {
            "flows_in_memory": len(self.core.runs),
            "map_bytes_in_memory": self.core.map_bytes_in_memory,
            "tasks_in_flight": self.core.tasks_in_flight,
            "tasks_at_workers": self._delivery.carried,
            "rpcs_open": len(self._replies),
            "worker_streams": self.dispatcher.open_streams,
            "offers_waiting": self.dispatcher.waiting_offers,
            "polls_waiting": self.waiters.waiting,
            "timers": self.timers.pending,
        }

    # --- inside -------------------------------------------------------------------------------

    def _release(self, tx: Transaction, hand_outs: list[HandOut]) -> None:
        for task_id in tx.cancelled_task_ids:
            self._delivery.cancel(task_id)
        self.counts["tasks_sent"] += len(hand_outs)
        for hand_out in hand_outs:
            freed = self._delivery.send(hand_out)
            if freed is not None:
                self.feed(freed)
        for call, reply in tx.replies:
            self._reply(call, reply)
        for run_key in tx.changed:
            self.waiters.wake(run_key)

    def _reply(self, call: RpcCall, reply: RpcReply) -> None:
        answer = self._replies.pop(call, None)
        if answer is not None and not answer.done():
            answer.set_result(reply)

    def _expel(self, broken: BrokenRun) -> None:
        """Trust the stored run, not the one in memory; its attempts count as lost."""
        _LOGGER.error("%s; it is read again from the store", broken, exc_info=broken.__cause__)
        run = broken.run
        for call in self.core.expel(run):
            self._reply(call, Refusal("INTERNAL", str(broken)))
        if run.key not in self._expelled:
            self._expelled.add(run.key)
            self._load(run.key)

    def _fire(self, key: TimerKey) -> None:
        if key.run_key not in self.core.runs:
            self._load(key.run_key)  # taking the run up sets its timers anew
        else:
            self.commit(self.attempt(lambda tx: self.core.fire_timer(tx, key)))

    def _allow_for_jump(self) -> None:
        """Workers slept as well, or live by another clock: none is late for it."""
        tx = self.begin()
        self.core.renew_beats(tx)
        self.commit(tx)

    def _load(self, run_key: int) -> None:
        self._spawn(self.library.load(run_key))

    async def _supply(self, need: Need) -> None:
        """Read map entries, behind all that was written, and let go on what waits for them."""
        try:
            await self.library.bring(need.run, need.selections)
        except sqlite3.Error as error:
            broken = BrokenRun(need.run)
            broken.__cause__ = error
            self._expel(broken)
        else:
            self.commit(self.attempt(lambda tx: self.core.go_on(tx, need)))

    def _spawn(self, load: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(load)
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)


def _new_id() -> str:
    return secrets.token_hex(16)
