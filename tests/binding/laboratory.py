"""Steps that stage changes of the model on a real Dex server, one after the other, and tell what they find."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dex

from dex_agents_dex.codec import codec_registry
from dex_agents_dex.engine_clock import EngineClock
from dex_agents_dex.entry_texts import ReadEntries, StoredTexts
from dex_agents_dex.event_message import EventMessage
from dex_agents_dex.port import DexStepPort, SessionBinding, dex_wait
from dex_agents_dex.schema import (
    DEFINITIONS,
)
from dex_agents_dex.writing import SessionWriter
from dex_agents_model import (
    SessionId,
)
from dex_agents_model.decision import Publish
from dex_agents_model.events import StepMethod
from dex_agents_model.requests import (
    ClaimToolCall,
)
from dex_agents_model.steps import Step
from dex_agents_model.waits import Wait

from .found import EVERYTHING, OPTIONS, Change, Changes, Found, Woken, find, known_of
from .scripted_runner import ScriptedRunner


class _ProbeStep(dex.Step[int]):
    """Runs on the Worker's loop, may look at everything, and tells the test what it finds or raises."""

    def __init__(self, told: asyncio.Future[Any]) -> None:
        self.told = told

    def get_step_options(self) -> dex.StepOptions:
        return EVERYTHING

    async def execute(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:  # type: ignore[override]  # the base class is typed for synchronous handlers
        try:
            return self.run(context, number)
        except Exception as error:
            if not self.told.done():
                self.told.set_exception(error)
            raise

    @abstractmethod
    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision: ...


class _Stage(_ProbeStep):
    """Stages the changes of one commit after the other, each in an execution of its own."""

    def __init__(self, told: asyncio.Future[Found], commits: Sequence[Changes]) -> None:
        super().__init__(told)
        self._commits = commits

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        changes = self._commits[number]
        _stage(context, changes(find(context)) if callable(changes) else changes)
        if number + 1 < len(self._commits):
            return dex.go_to(_Stage, number + 1)
        return dex.go_to(_ReadBack, 0)


def _stage(context: dex.Context, changes: tuple[Change, ...]) -> None:
    writer = SessionWriter(context, ScriptedRunner(Path()), known_of(context))
    for change in changes:
        if isinstance(change, Publish):
            writer.publish(change)
        else:
            writer.write(change)


class _ReadBack(_ProbeStep):
    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        self.told.set_result(find(context))
        return dex.dead_end()


class _Publish(_ProbeStep):
    def __init__(self, told: asyncio.Future[Woken], publishes: tuple[Publish, ...]) -> None:
        super().__init__(told)
        self._publishes = publishes

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        _stage(context, self._publishes)
        return dex.go_to(_Wait, 0)


class _Wait(_ProbeStep):
    def __init__(self, told: asyncio.Future[Woken], wait: Wait, step: Step) -> None:
        super().__init__(told)
        self._wait = wait
        self._step = step
        self._binding = SessionBinding(
            runner=ScriptedRunner(Path()),
            options=OPTIONS,
            events=dex.Stream("AgentEvents", EventMessage, 1024 * 1024),
            clock=EngineClock(),
            own_session=NotAsked(),
        )

    async def wait_for(self, context: dex.AsyncContext, number: int) -> dex.Wait:  # type: ignore[override]  # the base class is typed for synchronous handlers
        return dex_wait(self._wait)

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        port = DexStepPort(self._binding, context, StepMethod.EXECUTE)
        left = find(context)
        self.told.set_result(
            Woken(
                occurrence=port.occurrence(self._step),
                steering=len(left.steering),
                user_messages=len(left.queued),
                tool_results=left.tool_results,
                answers=len(left.answers),
            )
        )
        return dex.dead_end()


class NotAsked:
    """Stands for a session that no Step here has a reason to ask."""

    async def claim(self, session: SessionId, run_id: str, request: ClaimToolCall) -> bool:
        raise AssertionError(f"nothing runs here, and yet {session} is asked for {request}")

    async def read_entries(
        self,
        session: SessionId,
        run_id: str,
        entries: dex.AttributeMap[Any],
        request: ReadEntries,
    ) -> StoredTexts:
        raise AssertionError(f"all is loaded here, and yet {session} is asked for {request}")


class _Probe(dex.Flow[int]):
    def __init__(self, first: dex.Step[int], *others: dex.Step[int]) -> None:
        self._steps = dex.StepList.start_step(first).other_steps(*others)

    def get_steps(self) -> dex.StepList[int]:
        return self._steps

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(*DEFINITIONS)


class Laboratory:
    """Runs one probe at a time on a server, with a Worker in this very process."""

    def __init__(self, server_address: str, cache: dex.BlobCache) -> None:
        self._server_address = server_address
        self._cache = cache

    async def stage(self, flow_id: str, commits: Sequence[Changes]) -> Found:
        """What a Step finds after these commits."""
        found: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        async with self._running(_Probe(_Stage(found, commits), _ReadBack(found)), flow_id):
            return await found

    async def wake(
        self, flow_id: str, step: Step, publishes: tuple[Publish, ...], wait: Wait
    ) -> Woken:
        """What ends ``step``'s wait when these messages have been published."""
        woken: asyncio.Future[Woken] = asyncio.get_running_loop().create_future()
        async with self._running(
            _Probe(_Publish(woken, publishes), _Wait(woken, wait, step)), flow_id
        ):
            return await woken

    @asynccontextmanager
    async def _running(self, flow: _Probe, flow_id: str) -> AsyncIterator[None]:
        registry = dex.Registry([flow], codec_registry(), allow_async_handlers=True)
        pull = dex.PullWorkerOptions(max_concurrent_tasks=2)
        worker = dex.AsyncWorker(
            registry, self._cache, dex.WorkerOptions(server_address=self._server_address, pull=pull)
        )
        serving = asyncio.create_task(worker.start())
        try:
            await worker.wait_pull_registered(30)
            options = dex.ClientOptions(
                server_address=self._server_address, worker_target=dex.WorkerTarget(pull=True)
            )
            async with dex.AsyncClient(registry, self._cache, options) as client:
                await client.start_flow(flow, flow_id, 0)
                yield
        finally:
            await worker.stop()
            await serving
