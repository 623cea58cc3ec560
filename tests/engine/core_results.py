"""Options, results and values that nobody would think of, for the core alone.

No rule is asserted here.
"""

import random

from attrs import define
from dex.dexpb import dex_pb2 as pb
from google.protobuf import struct_pb2

from dex_agents_dex.devengine.core.state import Run

TYPES = ("A", "B", "Ä b")
KEYS = ("x", "ÿ", "Map/a", "Map/b", "Map/c")
CHANNELS = ("in", "öut", "Box/1")
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
class Inventor:
    chance: random.Random

    def fill_wait_for(self, result: pb.InvokeWaitForMethodResponse) -> None:
        self._fill_effects(result)
        result.upsert_step_exe_locals.add(key="local", value=self.value())
        if self.chance.random() < 0.3:
            return
        condition = result.waiting_condition
        condition.waiting_condition_type = self.chance.choice(
            (pb.WAITING_CONDITION_TYPE_ALL_COMPLETED, pb.WAITING_CONDITION_TYPE_ANY_COMPLETED)
        )
        for name in self.some(CHANNELS, 0.6) or ["in"]:
            least = self.chance.choice((0, 1, 2))
            condition.channel_conditions.add(channel_name=name, at_least=least, at_most=least + 1)
        for _ in range(self.chance.choice((0, 1, 2))):
            condition.timer_conditions.add(duration_seconds=self.chance.choice((0, 10, 60)))

    def fill_execute(self, result: pb.InvokeExecuteMethodResponse) -> None:
        self._fill_effects(result)
        decision = result.step_decision
        decision.cancel_step_types.extend(self.some(TYPES, 0.05))
        decision.cancel_sibling_step_types.extend(self.some(TYPES, 0.05))
        kind = self.chance.choices(CLOSES, (20, 0.5, 0.5, 0.1, 0.1, 4))[0]
        if kind:
            decision.close_decision.close_decision_type = kind
            decision.close_decision.close_input.CopyFrom(self.value())
            decision.close_decision.conditional_channel_names.append("in")
        if kind in (CLOSES[0], pb.CLOSE_DECISION_TYPE_FORCE_COMPLETE_ON_CHANNELS_EMPTY):
            decision.next_steps.extend(self._movements())

    def fill_rpc(self, result: pb.InvokeWorkerRPCResponse, run: Run) -> None:
        self._fill_effects(result)
        for name, messages in run.channels.items():
            if self.chance.random() < 0.3:
                message_id = self.chance.choice((messages[0].message_id, "gone"))
                result.delete_from_channel.add(channel_name=name, message_id=message_id)
        if self.chance.random() < 0.3:
            result.step_decision.next_steps.extend(self._movements())
            result.step_decision.cancel_step_types.extend(self.some(TYPES, 0.1))
        result.output.CopyFrom(self.value())

    def _fill_effects(
        self,
        result: pb.InvokeWaitForMethodResponse
        | pb.InvokeExecuteMethodResponse
        | pb.InvokeWorkerRPCResponse,
    ) -> None:
        result.upsert_attributes.extend(self.writes())
        for name in self.some(CHANNELS, 0.4):
            result.publish_to_channel.add(channel_name=name, value=self.value())

    def _movements(self) -> list[pb.StepMovement]:
        return [
            pb.StepMovement(
                step_type=self.chance.choice(TYPES),
                step_input=self.value(),
                step_options=self.options(),
            )
            for _ in range(self.chance.choice((1, 1, 2)))
        ]

    def options(self) -> pb.StepOptions:
        options = pb.StepOptions(
            skip_wait_for=self.chance.random() < 0.5,
            wait_for_lock_attribute_keys=self.some(KEYS, 0.15),
            execute_lock_attribute_keys=self.some(KEYS, 0.15),
            execute_load_attribute_map_instances=self.chance.choice(((), ("Map/",), ("Map/a",))),
            execute_load_channel_names=self.some(CHANNELS[:2], 0.5),
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

    def writes(self) -> list[pb.AttributeWrite]:
        writes = [
            pb.AttributeWrite(key=key, value=self.chance.choice((NULL, self.value())))
            for key in self.some(KEYS, 0.4)
        ]
        for write in writes:
            write.index_config.enable = write.key == "x"
        return writes

    def value(self) -> pb.Value:
        return self.chance.choice(
            (
                pb.Value(string_value=self.chance.choice(("", "short", "long" * 20))),
                pb.Value(int_value=self.chance.randrange(5)),
                pb.Value(),
            )
        )

    def some(self, choices: tuple[str, ...], probability: float) -> list[str]:
        return [each for each in choices if self.chance.random() < probability]
