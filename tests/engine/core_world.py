"""The core alone, driven at random: no clock, no network, rows in a database of memory.

`World.act` takes one step; what must hold after each is said in `test_core_at_random`.
"""

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.state import Offer, Phase, RpcCall, Run
from dex_agents_dex.devengine.core.transaction import Need, Settings, TimerKey, Transaction
from dex_agents_dex.devengine.loading import load_attributes, load_beginning, load_run
from dex_agents_dex.devengine.schema import STATEMENTS, TABLES
from tests.engine.core_results import CHANNELS, KEYS, TYPES, Inventor

T = TypeVar("T")

FLOWS = ("f", "g")


@define
class Carried:
    """A task at a Worker."""

    task_id: str
    offer: Offer
    kind: str


@define
class Reading:
    """Map entries that a store read, on their way."""

    need: Need
    found: dict[str, pb.Value]
    end: Callable[[], None]


@define
class World:
    chance: random.Random
    settings: Settings
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    core: Core = Factory(Core)
    invent: Inventor = field(init=False)
    timers: dict[TimerKey, datetime] = Factory(dict)
    offers: list[Offer] = Factory(list)
    carried: list[Carried] = Factory(list)
    replies: list[RpcCall] = Factory(list)
    opened: list[RpcCall] = Factory(list)
    needs: list[Need] = Factory(list)
    readings: list[Reading] = Factory(list)
    prepared: list[tuple[Run, pb.PollWorkerTask]] = Factory(list)  # by the last command
    database: sqlite3.Connection = field(factory=lambda: sqlite3.connect(":memory:"))
    _ids: Iterator[int] = Factory(itertools.count)
    _seen: dict[int, pb.PollWorkerTask] = Factory(dict)  # snapshots by their address

    def __attrs_post_init__(self) -> None:
        self.database.executescript(TABLES)
        self.invent = Inventor(self.chance)

    def act(self) -> str:
        """One random command; its name."""
        acts = {
            self._start: 2,
            self._hand_out: 12,
            self._finish: 12,
            self._lose: 2,
            self._beat: 1,
            self._pass_time: 3,
            self._open_rpc: 3,
            self._skip_timer: 1,
            self._read: 8,
            self._bring: 8,
            self._stop: 0.1,
            self._restart: 0.5,
        }
        [act] = self.chance.choices(list(acts), list(acts.values()))
        try:
            self.run(act)
        except Refusal as refusal:
            return f"{act.__name__}: {refusal}"
        return act.__name__

    def run(self, command: Callable[[Transaction], T]) -> T:
        """Run one command, with its consequences; a refused one has none."""
        tx = Transaction(
            self.now, lambda: f"id{next(self._ids)}", self.settings, self.core.index_names
        )
        result = command(tx)
        self._take_in(tx)
        return result

    def _take_in(self, tx: Transaction) -> None:
        """What a caller does with a filled transaction."""
        for key, due in tx.timers.items():
            if due is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due
        self.offers = [offer for offer in [*self.offers, *tx.offers] if offer.is_open]
        self.carried = [each for each in self.carried if each.task_id not in tx.cancelled_task_ids]
        self.replies += [call for call, _ in tx.replies]
        self.needs += tx.needs
        self.prepared = [
            (offer.run, task)
            for offer in tx.offers
            if (task := offer.subject.snapshot) is not None and id(task) not in self._seen
        ]
        self._seen |= {id(task): task for _, task in self.prepared}
        with self.database:
            for row in tx.seal():
                for statement in STATEMENTS[type(row)]:
                    self.database.execute(statement, row)

    # --- clients and time ---------------------------------------------------------------------

    def _start(self, tx: Transaction) -> None:
        request = pb.StartFlowRequest(
            flow_id=self.chance.choice(FLOWS),
            flow_type="T",
            request_id=f"r{next(self._ids)}",
            flow_timeout_seconds=self.chance.choice((0, 0, 0, 50_000)),
            start_step_type=self.chance.choice(TYPES),
            step_input=self.invent.value(),
            step_options=self.invent.options(),
        )
        options = request.flow_start_options
        options.id_reuse_policy = self.chance.choice(
            (
                *(pb.ID_REUSE_POLICY_ALLOW_IF_NO_RUNNING,) * 9,
                pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING,
            )
        )
        request.flow_timeout_policy = self.chance.choice(
            (pb.FLOW_TIMEOUT_POLICY_FAIL, pb.FLOW_TIMEOUT_POLICY_HANDLER)
        )
        options.timeout_handler_options.retry_policy.maximum_attempts = 2
        options.flow_start_delay_seconds = self.chance.choice((0, 0, 30))
        options.attributes.extend(self.invent.writes())
        self.core.start_flow(tx, request)

    def _stop(self, tx: Transaction) -> None:
        run = self._a_run()
        kind = self.chance.choice((pb.STOP_TYPE_CANCEL, pb.STOP_TYPE_TERMINATE, pb.STOP_TYPE_FAIL))
        request = pb.StopFlowRequest(stop_type=kind)
        self.core.stop_flow(tx, run, request)

    def _pass_time(self, tx: Transaction) -> None:
        due = min(self.timers.values(), default=None)
        if due is not None and self.chance.random() < 0.8:
            self.now = tx.now = max(self.now, due)
        else:
            self.now = tx.now = self.now + timedelta(seconds=self.chance.choice((1, 20, 100)))
        self.fire_due(tx)

    def fire_due(self, tx: Transaction) -> None:
        for key in [key for key, when in self.timers.items() if when <= tx.now]:
            del self.timers[key]
            self.core.fire_timer(tx, key)

    def _read(self, tx: Transaction) -> None:
        """Begin to read map entries that were asked for."""
        if self.needs:
            need = self.needs.pop(self.chance.randrange(len(self.needs)))
            reading = ExitStack()
            reading.enter_context(need.run.attributes.being_read())
            found = load_attributes(self.database, need.run.key, need.selections)
            self.readings.append(Reading(need, found, reading.close))

    def _bring(self, tx: Transaction) -> None:
        """What was read arrives, after whatever else was written meanwhile."""
        if self.readings:
            reading = self.readings.pop(self.chance.randrange(len(self.readings)))
            need = reading.need
            reading.end()
            need.run.attributes.supply(need.selections, reading.found)
            self.core.go_on(tx, need)

    def _restart(self, tx: Transaction) -> None:
        """Nothing is left but the rows; every run is read from them."""
        beginning = load_beginning(self.database)
        self.core = Core(beginning.next_run_key, set(beginning.index_names))
        self.timers = dict(beginning.timers)
        for lost in (self.offers, self.carried, self.needs, self.readings):
            lost.clear()
        self.opened = [call for call in self.opened if call in self.replies]
        for (run_key,) in self.database.execute("SELECT run_key FROM run ORDER BY run_key"):
            run = load_run(self.database, run_key)
            assert run is not None
            self.core.add_run(run, is_latest=True)
            self.core.resume(tx, run)

    def _open_rpc(self, tx: Transaction) -> None:
        request = pb.InvokeRPCRequest(
            rpc_name="rpc",
            is_transactional=self.chance.random() < 0.5,
            lock_attribute_keys=self.invent.some(KEYS, 0.1),
            load_channel_names=CHANNELS[:2],
            load_attribute_map_instances=self.chance.choice(((), ("Map/",), ("Map/a", "Map/b"))),
        )
        self.opened.append(self.core.open_rpc(tx, self._a_run(), request))

    def _skip_timer(self, tx: Transaction) -> None:
        run = self._a_run()
        waiting = [step for step in run.steps.values() if step.phase is Phase.WAITING]
        step_id = self.chance.choice(waiting).id if waiting else "none"
        index = self.chance.choice((0, 1))
        request = pb.SkipTimerRequest(step_execution_id=step_id, timer_condition_index=index)
        self.core.skip_timer(tx, run, request)

    # --- Workers ------------------------------------------------------------------------------

    def _hand_out(self, tx: Transaction) -> None:
        if not self.offers:
            return
        offer = self.offers.pop(self.chance.randrange(len(self.offers)))
        task = self.core.hand_out(tx, offer)
        kind = task.WhichOneof("request")
        assert kind is not None
        self.carried.append(Carried(task.task_id, offer, kind))

    def _finish(self, tx: Transaction) -> None:
        if not self.carried:
            return
        carried = self.carried.pop(self.chance.randrange(len(self.carried)))
        frame = pb.PollWorkerTaskFrame(task_id=carried.task_id)
        if self.chance.random() < 0.2:
            frame.worker_error.detail = "failed"
        elif carried.kind == "wait_for":
            self.invent.fill_wait_for(frame.wait_for.result)
        elif carried.kind == "execute":
            self.invent.fill_execute(frame.execute.result)
        else:
            self.invent.fill_rpc(frame.rpc, carried.offer.run)
        self.core.finish(tx, "worker", frame)

    def _lose(self, tx: Transaction) -> None:
        if not self.carried:
            return
        carried = self.carried.pop(self.chance.randrange(len(self.carried)))
        if self.chance.random() < 0.5:
            self.core.take_back(tx, carried.task_id)
        else:
            has_frames = self.chance.random() < 0.5
            self.core.cut(tx, carried.task_id, "worker", has_frames=has_frames)

    def _beat(self, tx: Transaction) -> None:
        if self.carried:
            beat = pb.StepMethodHeartbeat()
            if self.chance.random() < 0.7:
                beat.value.CopyFrom(self.invent.value())
            self.core.heartbeat(tx, self.chance.choice(self.carried).task_id, beat)

    def _a_run(self) -> Run:
        runs = list(self.core.runs.values())
        if not runs:
            raise Refusal("NOT_FOUND", "no run yet")
        running = [run for run in runs if run.is_running]
        return self.chance.choice(running or runs)
