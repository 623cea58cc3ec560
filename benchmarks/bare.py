"""What no session can go below: Steps of the shape of a turn of W in which nothing happens, on the same SDK and engine.

They read and store nothing, tell no event and run no agent. A turn is a message, which an RPC publishes, and the Steps
that a session takes for it; it has ended when a long poll says that the last one has.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import dex

from benchmarks.conversation import Opened
from benchmarks.step_flows import LONG
from benchmarks.workload import TOOLS

MESSAGES = dex.Channel("Messages", str)
RESULTS = dex.Channel("Results", int)
_SLOTS, _IDLE_STREAMS = 16, 4  # those of `AgentRuntime`


class Await(dex.Step[int]):
    """For a message."""

    async def wait_for(self, context: dex.AsyncContext, _: int) -> dex.Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return dex.Wait.until(MESSAGES.for_one())

    async def execute(self, context: dex.AsyncContext, _: int) -> dex.StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return dex.go_to(Ask, True)


class Ask(dex.Step[bool]):
    """In place of a model call: the first one of a turn starts its tools."""

    async def execute(self, context: dex.AsyncContext, is_first: bool) -> dex.StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        if not is_first:
            return dex.go_to(Await, 0)
        tools = (dex.StepMovement.of(Call, number) for number in range(len(TOOLS)))
        return dex.go_to_many(*tools, dex.StepMovement.of(Resume, 0))


class Call(dex.Step[int]):
    """In place of a tool call."""

    async def execute(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        RESULTS.publish(context, number)
        return dex.dead_end()


class Resume(dex.Step[int]):
    """When all tools have ended."""

    async def wait_for(self, context: dex.AsyncContext, _: int) -> dex.Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return dex.Wait.until(RESULTS.for_n(len(TOOLS)))

    async def execute(self, context: dex.AsyncContext, _: int) -> dex.StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
        return dex.go_to(Ask, False)


class Bare(dex.Flow[int]):
    def get_steps(self) -> dex.StepList[int]:
        return dex.StepList.start_step(Await()).other_steps(Ask(), Call(), Resume())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(MESSAGES, RESULTS)

    @dex.rpc(is_transactional=True)
    def send(self, context: dex.Context, text: str) -> dex.RPCResult[bool]:
        MESSAGES.publish(context, text)
        return dex.RPCResult(True)


class BareConversation:
    def __init__(self, client: dex.AsyncClient, flow: Bare, flow_id: str) -> None:
        self._client = client
        self._flow = flow
        self._flow_id = flow_id
        self._asked = 0

    async def take_turn(self) -> None:
        await self._client.invoke_rpc(self._flow.send, self._flow_id, "")
        self._asked += 2
        await self._client.wait_for_step_completion(
            self._flow_id,
            dex.StepExecutionId(Ask.__name__, self._asked),
            dex.WaitForStepCompletionOptions(request_timeout=LONG),
        )


@asynccontextmanager
async def open_conversations(place: str, count: int) -> AsyncIterator[Opened]:
    flow = Bare()
    registry = dex.Registry([flow], allow_async_handlers=True)
    pull = dex.PullWorkerOptions(max_concurrent_tasks=_SLOTS, idle_streams_per_queue=_IDLE_STREAMS)
    target = dex.WorkerTarget(pull=True)
    with tempfile.TemporaryDirectory() as scratch:
        cache = dex.open_blob_cache(dex.BlobCacheConfig(str(Path(scratch) / "cache"), 1 << 24))
        worker = dex.AsyncWorker(
            registry, cache, dex.WorkerOptions(server_address=place, pull=pull)
        )
        options = dex.ClientOptions(server_address=place, worker_target=target)
        async with dex.AsyncClient(registry, cache, options) as client:
            running = asyncio.create_task(worker.start())
            await worker.wait_pull_registered(LONG.total_seconds())
            names = [f"bare-{number}" for number in range(count)]
            for name in names:
                await client.start_flow(flow, name, 0)
            words = "Worker and client in one process, the engine in another; no agent, no data"
            yield words, [BareConversation(client, flow, name) for name in names]
            await worker.stop()
            await running
