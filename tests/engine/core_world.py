"""The core alone, driven at random: no clock, no network, rows in a database of memory.

`World.act` takes one step; what must hold after each is said in `test_core_at_random`.
"""

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from attrs import Factory, define, field
from dex.dexpb import dex_pb2 as pb
from google.protobuf import struct_pb2

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.state import Offer, Phase, RpcCall, Run
from dex_agents_dex.devengine.core.transaction import Settings, TimerKey, Transaction
from dex_agents_dex.devengine.schema import STATEMENTS, TABLES

T = TypeVar("T")

TYPES = ("A", "B", "C")
KEYS = ("x", "y", "Map/a", "Map/b", "Map/c")
CHANNELS = ("in", "out", "Box/1")
FLOWS = ("f", "g")
CLOSES = (
    pb.CLOSE_DECISION_TYPE_UNSPECIFIED,  # none
    pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY,
    pb.CLOSE_DECISION_TYPE_GRACEFUL_COMPLETE,
    pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE,
    pb.CLOSE_DECISION_TYPE_FORCE_FAIL,
    pb.CLOSE_DECISION_TYPE_DEAD_END,
)
WAIT_FOR_FAILURES = (
    pb.WAIT_FOR_METHOD_FAILURE_POLICY_FAIL_FLOW_ON_FAILURE,
    pb.WAIT_FOR_METHOD_FAILURE_POLICY_PROCEED_ON_FAILURE,
)
NULL = pb.Value(null_value=struct_pb2.NullValue.Name(struct_pb2.NULL_VALUE))


@define
class Carried:
    """A task at a Worker."""

    task_id: str
    offer: Offer
    kind: str


@define
class World:
    chance: random.Random
    settings: Settings
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    core: Core = Factory(Core)
    timers: dict[TimerKey, datetime] = Factory(dict)
    offers: list[Offer] = Factory(list)
    carried: list[Carried] = Factory(list)
    replies: list[RpcCall] = Factory(list)
    opened: list[RpcCall] = Factory(list)
    database: sqlite3.Connection = field(factory=lambda: sqlite3.connect(":memory:"))
    _ids: Iterator[int] = Factory(itertools.count)

    def __attrs_post_init__(self) -> None:
        self.database.executescript(TABLES)

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
            self._stop: 0.1,
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
            step_input=self._value(),
            step_options=self._options(),
        )
        options = request.flow_start_options
        options.id_reuse_policy = self.chance.choice(
            (
                *(pb.ID_REUSE_POLICY_ALLOW_IF_NO_RUNNING,) * 9,
                pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING,
            )
        )
        options.flow_start_delay_seconds = self.chance.choice((0, 0, 30))
        options.attributes.extend(self._writes())
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

    def _open_rpc(self, tx: Transaction) -> None:
        request = pb.InvokeRPCRequest(
            rpc_name="rpc",
            is_transactional=self.chance.random() < 0.5,
            lock_attribute_keys=self._some(KEYS, 0.1),
            load_channel_names=CHANNELS[:2],
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
            self._fill_wait_for(frame.wait_for.result)
        elif carried.kind == "execute":
            self._fill_execute(frame.execute.result)
        else:
            self._fill_rpc(frame.rpc, carried.offer.run)
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
                beat.value.CopyFrom(self._value())
            self.core.heartbeat(tx, self.chance.choice(self.carried).task_id, beat)

    # --- results ------------------------------------------------------------------------------

    def _fill_wait_for(self, result: pb.InvokeWaitForMethodResponse) -> None:
        self._fill_effects(result)
        result.upsert_step_exe_locals.add(key="local", value=self._value())
        if self.chance.random() < 0.3:
            return
        condition = result.waiting_condition
        condition.waiting_condition_type = self.chance.choice(
            (pb.WAITING_CONDITION_TYPE_ALL_COMPLETED, pb.WAITING_CONDITION_TYPE_ANY_COMPLETED)
        )
        for name in self._some(CHANNELS, 0.6) or ["in"]:
            least = self.chance.choice((0, 1, 2))
            condition.channel_conditions.add(channel_name=name, at_least=least, at_most=least + 1)
        for _ in range(self.chance.choice((0, 1, 2))):
            condition.timer_conditions.add(duration_seconds=self.chance.choice((0, 10, 60)))

    def _fill_execute(self, result: pb.InvokeExecuteMethodResponse) -> None:
        self._fill_effects(result)
        decision = result.step_decision
        decision.cancel_step_types.extend(self._some(TYPES, 0.05))
        decision.cancel_sibling_step_types.extend(self._some(TYPES, 0.05))
        kind = self.chance.choices(CLOSES, (20, 0.5, 0.5, 0.1, 0.1, 4))[0]
        if kind:
            decision.close_decision.close_decision_type = kind
            decision.close_decision.close_input.CopyFrom(self._value())
            decision.close_decision.conditional_channel_names.append("in")
        if kind in (CLOSES[0], pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY):
            decision.next_steps.extend(self._movements())

    def _fill_rpc(self, result: pb.InvokeWorkerRPCResponse, run: Run) -> None:
        self._fill_effects(result)
        for name, messages in run.channels.items():
            if self.chance.random() < 0.3:
                message_id = self.chance.choice((messages[0].message_id, "gone"))
                result.delete_from_channel.add(channel_name=name, message_id=message_id)
        if self.chance.random() < 0.3:
            result.step_decision.next_steps.extend(self._movements())
            result.step_decision.cancel_step_types.extend(self._some(TYPES, 0.1))
        result.output.CopyFrom(self._value())

    def _fill_effects(
        self,
        result: pb.InvokeWaitForMethodResponse
        | pb.InvokeExecuteMethodResponse
        | pb.InvokeWorkerRPCResponse,
    ) -> None:
        result.upsert_attributes.extend(self._writes())
        for name in self._some(CHANNELS, 0.4):
            result.publish_to_channel.add(channel_name=name, value=self._value())

    def _movements(self) -> list[pb.StepMovement]:
        return [
            pb.StepMovement(
                step_type=self.chance.choice(TYPES),
                step_input=self._value(),
                step_options=self._options(),
            )
            for _ in range(self.chance.choice((1, 1, 2)))
        ]

    def _options(self) -> pb.StepOptions:
        options = pb.StepOptions(
            skip_wait_for=self.chance.random() < 0.5,
            wait_for_lock_attribute_keys=self._some(KEYS, 0.15),
            execute_lock_attribute_keys=self._some(KEYS, 0.15),
            execute_load_attribute_map_instances=self.chance.choice(((), ("Map/",), ("Map/a",))),
            execute_load_channel_names=self._some(CHANNELS[:2], 0.5),
            wait_for_failure_policy=self.chance.choices(WAIT_FOR_FAILURES, (1, 15))[0],
            execute_timeout_seconds=self.chance.choice((0, 90)),
        )
        for policy in (options.wait_for_retry_policy, options.execute_retry_policy):
            policy.maximum_attempts = self.chance.choice((0, 1, 2))
        if self.chance.random() < 0.98:  # otherwise a spent Step ends its Flow
            options.execute_failure_policy = (
                pb.EXECUTE_METHOD_FAILURE_POLICY_PROCEED_TO_CONFIGURED_STEP
            )
            options.execute_failure_proceed_step_type = self.chance.choice(TYPES)
            options.execute_failure_proceed_step_options.skip_wait_for = True
        return options

    def _writes(self) -> list[pb.AttributeWrite]:
        writes = [
            pb.AttributeWrite(key=key, value=self.chance.choice((NULL, self._value())))
            for key in self._some(KEYS, 0.4)
        ]
        for write in writes:
            write.index_config.enable = write.key == "x"
        return writes

    def _value(self) -> pb.Value:
        return self.chance.choice(
            (
                pb.Value(string_value=self.chance.choice(("", "short", "long" * 20))),
                pb.Value(int_value=self.chance.randrange(5)),
                pb.Value(),
            )
        )

    def _some(self, choices: tuple[str, ...], probability: float) -> list[str]:
        return [each for each in choices if self.chance.random() < probability]

    def _a_run(self) -> Run:
        runs = list(self.core.runs.values())
        if not runs:
            raise Refusal("NOT_FOUND", "no run yet")
        running = [run for run in runs if run.is_running]
        return self.chance.choice(running or runs)
