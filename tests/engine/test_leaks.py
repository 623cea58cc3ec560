"""What is over leaves nothing behind: tasks, timers, streams, polls, offers, RPCs."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from dex import (
    AsyncContext,
    Channel,
    Context,
    RetryPolicy,
    RPCResult,
    StepDecision,
    StepMovement,
    StepOptions,
    Timer,
    Wait,
    WorkerInvocationError,
    dead_end,
    go_to_many,
    graceful_complete,
    rpc,
)

from dex_agents_dex.devengine import DevEngine, EngineOptions
from tests.engine.rig import Scenario, rig, step, until

INBOX = Channel("Inbox", str)
FLOWS = 40
NOTHING = {
    "flows_in_memory": 0,
    "tasks_in_flight": 0,
    "tasks_at_workers": 0,
    "rpcs_open": 0,
    "worker_streams": 0,
    "offers_waiting": 0,
    "polls_waiting": 0,
    "timers": 0,
}


class _Busy(Scenario):
    @rpc(is_transactional=True)
    def publish(self, context: Context, text: str) -> RPCResult[bool]:
        INBOX.publish(context, text)
        return RPCResult(True)

    @rpc
    def fail(self, context: Context) -> RPCResult[bool]:
        raise LookupError("no luck")


async def test_engine__holds_nothing_of_flows_that_ended_and_workers_that_left(
    tmp_path: Path,
) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.any_of(INBOX.for_n(2), Timer.by_duration(timedelta(hours=1)))

    async def finish(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(given)

    async def flaky(context: AsyncContext, given: str) -> StepDecision:
        if context.attempt == 1:
            await context.heartbeat("beat")
            raise RuntimeError("again")
        return dead_end()

    async def hang(context: AsyncContext, given: str) -> StepDecision:
        await asyncio.Event().wait()
        return dead_end()

    flaking = step("Flaky", flaky, options=StepOptions(execute_retry=RetryPolicy()))
    waiting = step("Waiting", finish, wait_for=wait)
    hanging = step("Hanging", hang)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        targets = (flaking, waiting, *((hanging,) if given == "stopped" else ()))
        return go_to_many(*(StepMovement.of(type(target), given) for target in targets))

    flow = _Busy(step("Fan", fan), flaking, waiting, hanging, schema=(INBOX,))
    options = EngineOptions(housekeeping_interval=timedelta(milliseconds=20))
    async with DevEngine(tmp_path / "data", options=options) as engine:
        async with rig(engine, tmp_path, flow, has_worker=False) as made:

            async def publish(flow_id: str, text: str) -> None:
                """Again, when a Worker dropped the stream that it was asked on: then nothing was done."""
                while True:
                    with suppress(WorkerInvocationError):
                        await made.rpc(flow.publish, flow_id, text)
                        return

            async def live(number: int) -> None:
                flow_id, kind = f"f{number}", ("stopped", "fed", "timed")[number % 3]
                await made.client.start_flow(flow, flow_id, kind)
                with pytest.raises(WorkerInvocationError):
                    await made.rpc(flow.fail, flow_id)
                if kind == "fed":
                    await publish(flow_id, "a")
                    await publish(flow_id, "b")
                elif kind == "stopped":
                    await made.client.stop_flow(flow_id)

            async with made.worker(max_concurrent_tasks=30), made.worker(max_concurrent_tasks=30):
                await asyncio.gather(*map(live, range(FLOWS)))
                abandoned = asyncio.create_task(made.result("f1"))
                endings = asyncio.gather(*(made.result(f"f{n}") for n in range(FLOWS)))
                while not endings.done():
                    await asyncio.wait({endings}, timeout=0.05)
                    engine.skip_time(timedelta(minutes=10))
                abandoned.cancel()
        await until(lambda: {name: engine.counts()[name] for name in NOTHING} == NOTHING)
