"""What a run keeps of the frames and requests that it is made of."""

import random
from collections.abc import Iterable

from dex.dexpb import dex_pb2 as pb
from google.protobuf.message import Message

from dex_agents_dex.devengine.core.transaction import Settings
from tests.engine.core_world import World

VALUE = pb.Value(string_value="kept")


def test_run__keeps_copies_so_that_no_frame_stays_in_memory() -> None:
    world = World(random.Random(0), Settings())
    request = pb.StartFlowRequest(
        flow_id="f", flow_type="T", request_id="r", start_step_type="Only", step_input=VALUE
    )
    request.flow_start_options.attributes.add(key="first", value=VALUE)
    request.step_options.wait_for_load_channel_names.append("in")
    run = world.run(lambda tx: world.core.start_flow(tx, request))
    [step] = run.steps.values()

    task = world.run(lambda tx: world.core.hand_out(tx, world.offers.pop()))
    beat = pb.StepMethodHeartbeat(value=VALUE)
    world.run(lambda tx: world.core.heartbeat(tx, task.task_id, beat))
    heartbeat = step.heartbeat

    frame = pb.PollWorkerTaskFrame(task_id=task.task_id)
    result = frame.wait_for.result
    result.upsert_attributes.add(key="Map/second", value=VALUE)
    result.upsert_step_exe_locals.add(key="local", value=VALUE)
    result.publish_to_channel.add(channel_name="out", value=VALUE)
    result.waiting_condition.waiting_condition_type = pb.WAITING_CONDITION_TYPE_ALL_COMPLETED
    result.waiting_condition.channel_conditions.add(channel_name="in")
    world.run(lambda tx: world.core.finish(tx, "worker", frame))

    kept = (
        run.attributes.get("first"),
        step.input,
        step.options,
        heartbeat,
        run.attributes.get("Map/second"),
        step.locals["local"],
        run.channels["out"][0].value,
        step.wait,
    )
    given = (
        request.flow_start_options.attributes[0].value,
        request.step_input,
        request.step_options,
        beat.value,
        result.upsert_attributes[0].value,
        result.upsert_step_exe_locals[0].value,
        result.publish_to_channel[0].value,
        result.waiting_condition,
    )
    assert kept == given
    assert _same_objects(kept, given) == []


def _same_objects(kept: Iterable[Message | None], given: Iterable[Message]) -> list[Message | None]:
    return [mine for mine, theirs in zip(kept, given, strict=True) if mine is theirs]
