"""Flows that stage commits of the model on a real Dex server and tell what the next Step finds there."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import dex
from attrs import field, frozen

from dex_agents_dex.codec import codec_registry
from dex_agents_dex.engine_clock import EngineClock
from dex_agents_dex.port import DexStepPort, SessionBinding, dex_wait
from dex_agents_dex.reading import SessionReader
from dex_agents_dex.schema import (
    AGENT_MESSAGE_PARTS,
    AGENT_MESSAGES,
    AGENT_TOOL_CALL_PARTS,
    AGENT_TOOL_CALLS,
    APPROVALS,
    DEFINITIONS,
    FRAMEWORK_RUN_STATE,
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TAKEN_STEERING,
    TOOL_CALL_CLAIMS,
    TOOL_CALL_RESULTS,
)
from dex_agents_dex.writing import SessionWriter
from dex_agents_model import (
    AgentEvent,
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentSessionOptions,
    AgentState,
    AgentToolCall,
    AgentUsage,
    AgentUserMessage,
    InterruptId,
    SessionId,
    ToolCallId,
    TurnId,
)
from dex_agents_model.decision import Publish, Write
from dex_agents_model.effects import Occurrence
from dex_agents_model.events import StepMethod
from dex_agents_model.records import ApprovalRecord, SteeringMessage, TakenSteering
from dex_agents_model.requests import (
    ClaimToolCall,
    ListApprovals,
    ListQueuedMessages,
    ResolveInterrupt,
)
from dex_agents_model.steps import RecordTurnFailure, ResumeTurn, RunModel, Step
from dex_agents_model.views import (
    AnswerView,
    ApprovalsView,
    QueueView,
    ResumeView,
    TurnView,
    UnfinishedTurnView,
)
from dex_agents_model.waits import Wait

from .scripted_runner import ScriptedRunner

OPTIONS = AgentSessionOptions()
MAPS: tuple[dex.AttributeMap[Any], ...] = (
    AGENT_MESSAGES,
    AGENT_MESSAGE_PARTS,
    AGENT_TOOL_CALLS,
    AGENT_TOOL_CALL_PARTS,
    FRAMEWORK_RUN_STATE,
    TOOL_CALL_CLAIMS,
    TAKEN_STEERING,
    APPROVALS,
)
EVERYTHING = dex.StepOptions(
    execute_load_attribute_maps=MAPS,
    execute_load_channels=(STEERING_MESSAGES, QUEUED_USER_MESSAGES, TOOL_CALL_RESULTS),
    execute_load_channel_maps=(INTERRUPT_RESOLUTIONS,),
)


@frozen(kw_only=True)
class Found:
    """All that a session stores, as its views show it, and how many entries each map has.

    No more than two Channels may hold messages: SDK 1.23 confuses the values of three that are
    loaded at once, in some processes.
    """

    state: AgentState | None = None
    cancelled_turn: TurnId | None = None
    usage: AgentUsage = AgentUsage()
    interrupts: tuple[AgentInterrupt, ...] = ()
    taken_request_ids: tuple[str, ...] = ()
    messages: tuple[AgentMessage, ...] = ()
    run_state: str | None = None
    tool_calls: tuple[AgentToolCall, ...] = ()
    claimed: frozenset[ToolCallId] = frozenset()
    taken_steering: tuple[TakenSteering, ...] = ()
    approvals: tuple[ApprovalRecord, ...] = ()
    steering: tuple[SteeringMessage, ...] = ()
    queued: tuple[AgentUserMessage, ...] = ()
    answers: tuple[AgentInterruptResolution, ...] = ()
    tool_results: int = 0
    entries: Mapping[str, int] = MappingProxyType({})
    steering_ids: tuple[str, ...] = field(default=(), eq=False)
    queued_ids: tuple[str, ...] = field(default=(), eq=False)


Change: TypeAlias = Write | Publish
Changes: TypeAlias = "tuple[Change, ...] | Callable[[Found], tuple[Change, ...]]"
"""What one Step stages; a function when it depends on what the Step finds."""


@frozen(kw_only=True)
class Woken:
    """Why a Step that waited executes, and how many messages it left in the Channels."""

    occurrence: Occurrence
    steering: int = 0
    user_messages: int = 0
    tool_results: int = 0
    answers: int = 0


def find(context: dex.Context) -> Found:
    """Everything, through the views that the Steps and RPCs of a session read."""
    reader, turn = SessionReader(context, OPTIONS), TurnId.of(1)
    running = reader.step_view(TurnView, RunModel(turn))
    resuming = reader.step_view(ResumeView, ResumeTurn(turn, 1))
    ending = reader.step_view(UnfinishedTurnView, RecordTurnFailure(turn))
    asked = reader.rpc_view(AnswerView, ResolveInterrupt(InterruptId("turn-1.c"), approved=True))
    queue = reader.rpc_view(QueueView, ListQueuedMessages())
    log = reader.rpc_view(ApprovalsView, ListApprovals())
    assert isinstance(running, TurnView)
    assert isinstance(resuming, ResumeView)
    assert isinstance(ending, UnfinishedTurnView)
    assert isinstance(asked, AnswerView)
    assert isinstance(queue, QueueView)
    assert isinstance(log, ApprovalsView)
    sizes = {each.name: each.get_map_size(context) for each in MAPS}
    return Found(
        state=running.state,
        cancelled_turn=running.cancelled_turn,
        usage=running.usage,
        interrupts=asked.interrupts,
        taken_request_ids=asked.taken_request_ids,
        messages=running.messages,
        run_state=running.run_state,
        tool_calls=running.tool_calls,
        claimed=ending.claimed,
        taken_steering=running.steering,
        approvals=log.approvals,
        steering=tuple(pending.steering for pending in resuming.pending_steering),
        queued=tuple(pending.message for pending in queue.queued),
        answers=ending.answers,
        tool_results=TOOL_CALL_RESULTS.size(context),
        entries={name: size for name, size in sizes.items() if size},
        steering_ids=tuple(pending.channel_message_id for pending in resuming.pending_steering),
        queued_ids=tuple(pending.channel_message_id for pending in queue.queued),
    )


class _ProbeStep(dex.Step[int]):
    """Runs on the Worker's loop, and may look at everything."""

    def get_step_options(self) -> dex.StepOptions:
        return EVERYTHING

    async def execute(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:  # type: ignore[override]  # the base class is typed for synchronous handlers
        return self.run(context, number)

    @abstractmethod
    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision: ...


class _Stage(_ProbeStep):
    """Stages the changes of one commit after the other, each in an execution of its own."""

    def __init__(self, commits: Sequence[Changes]) -> None:
        self._commits = commits

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        changes = self._commits[number]
        _stage(context, changes(find(context)) if callable(changes) else changes)
        if number + 1 < len(self._commits):
            return dex.go_to(_Stage, number + 1)
        return dex.go_to(_ReadBack, 0)


def _stage(context: dex.Context, changes: tuple[Change, ...]) -> None:
    writer = SessionWriter(context, ScriptedRunner(Path()))
    for change in changes:
        if isinstance(change, Publish):
            writer.publish(change)
        else:
            writer.write(change)


class _ReadBack(_ProbeStep):
    def __init__(self, found: asyncio.Future[Found]) -> None:
        self._found = found

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        self._found.set_result(find(context))
        return dex.dead_end()


class _Publish(_ProbeStep):
    def __init__(self, publishes: tuple[Publish, ...]) -> None:
        self._publishes = publishes

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        _stage(context, self._publishes)
        return dex.go_to(_Wait, 0)


class _Wait(_ProbeStep):
    def __init__(self, wait: Wait, step: Step, woken: asyncio.Future[Woken]) -> None:
        self._wait = wait
        self._step = step
        self._woken = woken
        self._binding = SessionBinding(
            runner=ScriptedRunner(Path()),
            options=OPTIONS,
            events=dex.Stream("AgentEvents", AgentEvent, 1024 * 1024),
            clock=EngineClock(),
            claims=_NoClaims(),
        )

    async def wait_for(self, context: dex.AsyncContext, number: int) -> dex.Wait:  # type: ignore[override]  # the base class is typed for synchronous handlers
        return dex_wait(self._wait)

    def run(self, context: dex.AsyncContext, number: int) -> dex.StepDecision:
        port = DexStepPort(self._binding, context, StepMethod.EXECUTE)
        left = find(context)
        self._woken.set_result(
            Woken(
                occurrence=port.occurrence(self._step),
                steering=len(left.steering),
                user_messages=len(left.queued),
                tool_results=left.tool_results,
                answers=len(left.answers),
            )
        )
        return dex.dead_end()


class _NoClaims:
    async def claim(self, session: SessionId, request: ClaimToolCall) -> bool:
        raise AssertionError(f"nothing runs here, and yet {session} is asked for {request}")


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
        async with self._running(_Probe(_Stage(commits), _ReadBack(found)), flow_id):
            return await found

    async def wake(
        self, flow_id: str, step: Step, publishes: tuple[Publish, ...], wait: Wait
    ) -> Woken:
        """What ends ``step``'s wait when these messages have been published."""
        woken: asyncio.Future[Woken] = asyncio.get_running_loop().create_future()
        async with self._running(_Probe(_Publish(publishes), _Wait(wait, step, woken)), flow_id):
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
