"""Commands that hypothesis invents: the core and a small independent model give the same answers.

After each command the Flow must look alike in both; what a Worker is given is compared as it is
handed out. A failure shows the shortest commands that lead to it.
"""

import random
from datetime import timedelta
from typing import Any

import pytest
from dex.dexpb import dex_pb2 as pb
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.state import Phase, Progress, RpcCall, Run, StepExecution
from dex_agents_dex.devengine.core.transaction import Settings
from tests.engine.core_results import NULL
from tests.engine.core_world import World
from tests.engine.oracle import Condition, Effects, Need, Oracle, Seen, StepPlan

LONG_SECONDS = 1_000_000  # nothing times out here
KEYS, CHANNELS, TYPES = ("x", "y", "z"), ("in", "out"), ("A", "B")

_values = st.integers(0, 9)
_locks = st.frozensets(st.sampled_from(KEYS), max_size=2)
_plans = st.builds(StepPlan, st.sampled_from(TYPES), st.booleans(), _locks, _locks)
_effects = st.builds(
    Effects,
    st.dictionaries(st.sampled_from(KEYS), st.none() | _values, max_size=2),
    st.lists(st.tuples(st.sampled_from(CHANNELS), _values), max_size=3).map(tuple),
    st.lists(_plans, max_size=2).map(tuple),
)
_bounds = st.none() | st.integers(0, 3)
_needs = st.builds(Need, st.sampled_from(CHANNELS), _bounds, _bounds).filter(
    lambda need: need.at_least is None or need.at_most is None or need.at_least <= need.at_most
)
_conditions = st.builds(
    Condition,
    st.booleans(),
    st.lists(st.sampled_from((0, 2, 5)), max_size=2).map(tuple),
    st.lists(_needs, max_size=3).map(tuple),
).filter(lambda condition: bool(condition.timers or condition.needs))


class CoreAgainstOracle(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(random.Random(0), Settings())
        self.oracle = Oracle()
        self.carried: dict[str, pb.PollWorkerTask] = {}  # by Step id, or RPC name
        self.rpcs = 0
        request = pb.StartFlowRequest(flow_id="f", flow_type="T", request_id="r")
        self.run: Run = self.world.run(lambda tx: self.world.core.start_flow(tx, request))

    @initialize(plans=st.lists(_plans, min_size=2, max_size=4).map(tuple))
    def begin(self, plans: tuple[StepPlan, ...]) -> None:
        self.open_rpc(frozenset())
        self.answer("rpc1", Effects(movements=plans))

    @invariant()
    def both_look_alike(self) -> None:
        assert _picture(self.run) == self.oracle.picture()

    @rule(locks=_locks)
    def open_rpc(self, locks: frozenset[str]) -> None:
        self.rpcs += 1
        name = f"rpc{self.rpcs}"
        seen = self.oracle.open_rpc(name, locks)
        request = pb.InvokeRPCRequest(
            rpc_name=name, lock_attribute_keys=sorted(locks), timeout_seconds=LONG_SECONDS
        )
        if seen is None:
            with pytest.raises(Refusal, match="lock"):
                self.world.run(lambda tx: self.world.core.open_rpc(tx, self.run, request))
        else:
            call = self.world.run(lambda tx: self.world.core.open_rpc(tx, self.run, request))
            assert _seen(self._take(call, name).rpc) == seen

    @precondition(lambda self: any(name.startswith("rpc") for name in self.carried))
    @rule(data=st.data(), effects=_effects)
    def finish_rpc(self, data: st.DataObject, effects: Effects) -> None:
        names = [name for name in self.carried if name.startswith("rpc")]
        self.answer(data.draw(st.sampled_from(names)), effects)

    def answer(self, name: str, effects: Effects) -> None:
        """The Worker's result for an RPC."""
        result = pb.InvokeWorkerRPCResponse()
        _fill(result, effects)
        result.step_decision.next_steps.extend(map(_movement, effects.movements))
        if not effects.movements:
            result.ClearField("step_decision")
        self._finish(name, rpc=result)
        self.oracle.finish_rpc(name, effects)

    @precondition(lambda self: self.world.offers)
    @rule()
    def hand_out_all(self) -> None:
        for offer in tuple(self.world.offers):
            step = offer.subject
            assert isinstance(step, StepExecution)
            task = self._take(step, step.id)
            given = task.wait_for if task.HasField("wait_for") else task.execute
            assert _seen(given) == self.oracle.steps[step.id].seen

    @precondition(lambda self: any(not name.startswith("rpc") for name in self.carried))
    @rule(data=st.data(), effects=_effects, condition=st.none() | _conditions)
    def finish_step(
        self, data: st.DataObject, effects: Effects, condition: Condition | None
    ) -> None:
        names = [name for name in self.carried if not name.startswith("rpc")]
        self.say(data.draw(st.sampled_from(names)), effects, condition)

    def say(self, name: str, effects: Effects, condition: Condition | None) -> None:
        """The Worker's result for a Step; `condition` is for a `wait_for` alone."""
        if self.carried[name].HasField("wait_for"):
            effects = Effects(effects.writes, effects.published)
            waited = pb.InvokeWaitForMethodResponse()
            _fill(waited, effects)
            if condition is not None:
                waited.waiting_condition.CopyFrom(_wire(condition))
            self._finish(name, wait_for=pb.InvokeWaitForMethodOutput(result=waited))
            self.oracle.finish_wait_for(name, condition, effects)
            return
        executed = pb.InvokeExecuteMethodResponse()
        _fill(executed, effects)
        executed.step_decision.next_steps.extend(map(_movement, effects.movements))
        if not effects.movements:
            close = executed.step_decision.close_decision
            close.close_decision_type = pb.CLOSE_DECISION_TYPE_DEAD_END
        self._finish(name, execute=pb.InvokeExecuteMethodOutput(result=executed))
        self.oracle.finish_execute(name, effects)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.now += timedelta(seconds=1)
            self.world.run(self.world.fire_due)
        self.oracle.pass_time(seconds)

    @precondition(lambda self: self._timers())
    @rule(data=st.data())
    def skip_timer(self, data: st.DataObject) -> None:
        name, index = data.draw(st.sampled_from(self._timers()))
        request = pb.SkipTimerRequest(step_execution_id=name, timer_condition_index=index)
        self.world.run(lambda tx: self.world.core.skip_timer(tx, self.run, request))
        self.oracle.skip_timer(name, index)

    def _timers(self) -> list[tuple[str, int]]:
        return [
            (name, index)
            for name, step in self.oracle.steps.items()
            if step.phase == "waiting"
            for index in range(len(step.dues))
        ]

    def _take(self, subject: StepExecution | RpcCall, name: str) -> pb.PollWorkerTask:
        [offer] = [offer for offer in self.world.offers if offer.subject is subject]
        self.world.offers.remove(offer)
        task = self.world.run(lambda tx: self.world.core.hand_out(tx, offer))
        self.carried[name] = task
        return task

    def _finish(self, name: str, **output: Any) -> None:
        frame = pb.PollWorkerTaskFrame(task_id=self.carried.pop(name).task_id, **output)
        self.world.run(lambda tx: self.world.core.finish(tx, "worker", frame))


def _picture(run: Run) -> dict[str, object]:
    return {
        "attributes": {key: value.int_value for key, value in run.attributes.over({}).items()},
        "channels": {
            name: [message.value.int_value for message in messages]
            for name, messages in run.channels.items()
        },
        "steps": {step.id: _place(step) for step in run.steps.values()},
    }


def _place(step: StepExecution) -> tuple[str, str]:
    if step.phase is Phase.WAITING:
        return "waiting", ""
    phase = "wait_for" if step.phase is Phase.WAIT_FOR else "execute"
    return phase, "in line" if step.progress is Progress.BLOCKED else "offered"


def _seen(request: Any) -> Seen:
    taken: tuple[tuple[int, ...], ...] = ()
    if isinstance(request, pb.InvokeExecuteMethodRequest):
        results = request.condition_results.channel_results
        taken = tuple(tuple(value.int_value for value in each.values) for each in results)
    return Seen(
        {each.key: each.value.int_value for each in request.attributes},
        {name: info.size for name, info in request.channel_infos.items()},
        taken,
    )


def _fill(result: Any, effects: Effects) -> None:
    for key, value in effects.writes.items():
        result.upsert_attributes.add(key=key, value=NULL if value is None else _value(value))
    for channel, published in effects.published:
        result.publish_to_channel.add(channel_name=channel, value=_value(published))


def _movement(plan: StepPlan) -> pb.StepMovement:
    options = pb.StepOptions(
        skip_wait_for=not plan.has_wait_for,
        wait_for_lock_attribute_keys=sorted(plan.wait_for_locks),
        execute_lock_attribute_keys=sorted(plan.execute_locks),
        heartbeat_timeout_seconds=LONG_SECONDS,
    )
    return pb.StepMovement(step_type=plan.step_type, step_options=options)


def _wire(condition: Condition) -> pb.WaitingCondition:
    kind = (
        pb.WAITING_CONDITION_TYPE_ANY_COMPLETED
        if condition.is_any
        else pb.WAITING_CONDITION_TYPE_ALL_COMPLETED
    )
    made = pb.WaitingCondition(waiting_condition_type=kind)
    for seconds in condition.timers:
        made.timer_conditions.add(duration_seconds=seconds)
    for need in condition.needs:
        made.channel_conditions.add(
            channel_name=need.channel, at_least=need.at_least, at_most=need.at_most
        )
    return made


def _value(number: int) -> pb.Value:
    return pb.Value(int_value=number)


TestCoreAgainstOracle = CoreAgainstOracle.TestCase


@pytest.mark.parametrize("first", ["A-1", "B-1"])
def test_waits__are_filled_in_execution_order_whichever_began_to_wait_first(first: str) -> None:
    machine = CoreAgainstOracle()
    plans = tuple(StepPlan(name, True, frozenset(), frozenset()) for name in TYPES)
    machine.begin(plans)
    machine.hand_out_all()
    one_message = Condition(False, (), (Need("in", None, None),))
    for name in sorted(machine.carried, key=lambda name: name != first):
        machine.say(name, Effects(), one_message)
    machine.open_rpc(frozenset())
    machine.answer("rpc2", Effects(published=(("in", 7),)))
    assert _picture(machine.run)["steps"] == {"A-1": ("execute", "offered"), "B-1": ("waiting", "")}
    machine.both_look_alike()
