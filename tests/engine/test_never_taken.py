"""Attempts and RPCs that no Worker ever carries out: they end all the same."""

import random
from datetime import timedelta
from functools import partial

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.transaction import Settings
from tests.engine.core_world import World


def _started(settings: Settings, step_type: str = "") -> tuple[World, Run]:
    world = World(random.Random(0), settings)
    request = pb.StartFlowRequest(
        flow_id="f", flow_type="T", request_id="r", start_step_type=step_type
    )
    request.flow_start_options.attributes.add(key="text", value=pb.Value(string_value="x" * 500))
    return world, world.run(lambda tx: world.core.start_flow(tx, request))


def test_oversize_task__is_given_up_once_its_policys_total_duration_is_over() -> None:
    world, run = _started(Settings(frame_limit_bytes=100), "Only")
    started_at = world.now
    for _ in range(1000):
        if run.is_running:
            world.now = min(world.timers.values())
            world.run(world.fire_due)
    assert run.status == pb.FLOW_STATUS_FAILED
    assert world.now - started_at <= timedelta(hours=4)
    assert "and the limit is 100" in run.error_message


def test_rpc__that_workers_keep_declining_fails_when_its_patience_is_over() -> None:
    world, run = _started(Settings(rpc_dispatch_timeout=timedelta(seconds=10)))
    call = world.run(
        lambda tx: world.core.open_rpc(tx, run, pb.InvokeRPCRequest(flow_id="f", rpc_name="n"))
    )
    for _ in range(9):
        world.now += timedelta(seconds=1)
        task = world.run(lambda tx: world.core.hand_out(tx, world.offers.pop()))
        world.run(partial(world.core.take_back, task_id=task.task_id))
    assert world.replies == []
    world.now += timedelta(seconds=1)
    world.run(world.fire_due)
    assert world.replies == [call]
