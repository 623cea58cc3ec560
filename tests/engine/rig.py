"""A dev engine, a client and Workers in the test's own loop, and Steps made of functions.

No rule is asserted here.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import define
from dex import (
    AsyncClient,
    AsyncContext,
    AsyncWorker,
    BlobCacheConfig,
    ClientOptions,
    Flow,
    FlowResult,
    PersistenceSchema,
    PullWorkerOptions,
    Registry,
    RetryPolicy,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Wait,
    WorkerOptions,
    WorkerTarget,
    open_blob_cache,
)

from dex_agents_dex.devengine import DevEngine

GENEROUS = timedelta(seconds=20)
ONE_ATTEMPT = RetryPolicy(maximum_attempts=1)

Execute = Callable[[AsyncContext, str], Awaitable[StepDecision]]
WaitFor = Callable[[AsyncContext, str], Awaitable[Wait]]


def step(
    name: str,
    execute: Execute,
    *,
    wait_for: WaitFor | None = None,
    options: StepOptions | None = None,
) -> Step[str]:
    """A Step of its own class, so that `go_to(type(it), ...)` can name it."""

    class Made(Step[str]):
        async def execute(self, context: AsyncContext, given: str) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
            return await execute(context, given)

        def get_step_type(self) -> str:
            return name

        def get_step_options(self) -> StepOptions | None:
            return options

    if wait_for is None:
        return Made()
    begin_waiting = wait_for

    class MadeWaiting(Made):
        async def wait_for(self, context: AsyncContext, given: str) -> Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
            return await begin_waiting(context, given)

    return MadeWaiting()


class Scenario(Flow[str]):
    """A Flow of given Steps, the first being the start, over given Attributes and Channels."""

    def __init__(self, *steps: Step[str], schema: tuple[Any, ...] = ()) -> None:
        self._steps = steps
        self._schema = schema

    def get_steps(self) -> StepList[str]:
        if not self._steps:
            return StepList.empty()
        return StepList.start_step(self._steps[0]).other_steps(*self._steps[1:])

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(*self._schema)


@define
class Rig:
    """What a scenario needs: where the engine is, a client, and Workers that run the Flows."""

    address: str
    client: AsyncClient
    registry: Registry
    cache_dir: Path

    async def result(self, flow_id: str) -> FlowResult:
        return await self.client.wait_for_flow(flow_id, GENEROUS)

    async def outputs(self, flow_id: str, output_type: type[Any] = str) -> list[tuple[str, Any]]:
        """Completions of a Flow, once it is closed: Step execution id and decoded output."""
        result = await self.result(flow_id)
        return [(c.step_execution_id, c.decode(output_type)) for c in result.completions]

    async def rpc(self, method: Callable[..., Any], flow_id: str, *arguments: Any) -> Any:
        """Invoke an RPC whose handler may be a coroutine, which the client's types do not allow."""
        return await self.client.invoke_rpc(method, flow_id, *arguments)

    @asynccontextmanager
    async def worker(self, **pull: Any) -> AsyncIterator[AsyncWorker]:
        """A running Worker; it is stopped at the end."""
        pull.setdefault("max_concurrent_tasks", 8)
        worker = AsyncWorker(
            self.registry,
            open_blob_cache(BlobCacheConfig(str(self.cache_dir / "worker"), 64 << 20)),
            WorkerOptions(server_address=self.address, pull=PullWorkerOptions(**pull)),
        )
        running = asyncio.create_task(worker.start())
        try:
            await worker.wait_pull_registered(GENEROUS.total_seconds())
            yield worker
        finally:
            await worker.stop()
            await running


@define
class EngineRig(Rig):
    """A rig on an engine of the same loop."""

    engine: DevEngine


@asynccontextmanager
async def rig(
    engine: DevEngine, cache_dir: Path, *flows: Flow[Any], has_worker: bool = True
) -> AsyncIterator[EngineRig]:
    async with AsyncExitStack() as stack:
        outer = await stack.enter_async_context(rig_at(engine.address, cache_dir, *flows))
        if has_worker:
            await stack.enter_async_context(outer.worker())
        yield EngineRig(outer.address, outer.client, outer.registry, cache_dir, engine)


@asynccontextmanager
async def rig_at(address: str, cache_dir: Path, *flows: Flow[Any]) -> AsyncIterator[Rig]:
    """A client for an engine anywhere, and no Worker yet."""
    registry = Registry(list(flows), allow_async_handlers=True)
    client = AsyncClient(
        registry,
        open_blob_cache(BlobCacheConfig(str(cache_dir / "client"), 64 << 20)),
        ClientOptions(server_address=address, worker_target=WorkerTarget(pull=True)),
    )
    async with client:
        yield Rig(address, client, registry, cache_dir)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(is_so: Callable[[], bool]) -> None:
    """Look again and again, for a generous while."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(GENEROUS.total_seconds()):
        while not is_so():
            again = loop.create_future()
            loop.call_later(0.01, again.set_result, None)
            await again
