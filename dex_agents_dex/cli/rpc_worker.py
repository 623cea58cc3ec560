"""A Worker that answers the RPCs of sessions and runs none of their Steps: reading and answering need no agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final, NoReturn

import dex

from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    FrameworkMessage,
    ToolExecutionResult,
)

from ..dex_server import DexServer
from ..flow import AgentSessionFlow, agent_registry
from ..serving import serving

_REGISTERS_WITHIN: Final = timedelta(seconds=8)
_DECLINES_FOR: Final = timedelta(milliseconds=200)
_SLOTS: Final = 4
_DRAINS_WITHIN: Final = timedelta(seconds=2)
"""An RPC takes milliseconds; a person who leaves shall not wait for what is lost."""


def flow_without_agent(flow_type: str) -> AgentSessionFlow:
    """A Flow that answers for the sessions of ``flow_type`` as any other does, and can run none of them.

    It knows the limits that an application chose only by their defaults.
    """
    return AgentSessionFlow(_NoAgent(), flow_type=flow_type)


def registry_without_steps(flows: Iterable[AgentSessionFlow]) -> dex.Registry:
    """A Registry whose Worker declines every Step, at no cost to it: another Worker gets the same attempt.

    The SDK's Worker declines the Steps whose name its Registry does not know, and has no other way
    to do so. A Flow without Steps would not do: a cancel names the Steps that it ends and starts,
    so their classes must stay known.
    """
    registry = agent_registry(*flows)
    known = registry._registered_flows.items()
    nameless = {name: replace(flow, steps=MappingProxyType({})) for name, flow in known}
    object.__setattr__(registry, "_registered_flows", MappingProxyType(nameless))
    return registry


@asynccontextmanager
async def rpc_worker(
    registry: dex.Registry, cache: dex.BlobCache, server: DexServer
) -> AsyncIterator[None]:
    """While this lasts, this program answers the RPCs of the Flows in ``registry``.

    Raises:
        EngineUnavailable: the server does not take the Worker.
    """
    pull = dex.PullWorkerOptions(max_concurrent_tasks=_SLOTS, stop_drain_timeout=_DRAINS_WITHIN)
    worker = dex.AsyncWorker(registry, cache, server.worker_options(pull))
    async with serving(worker, _REGISTERS_WITHIN):
        yield
        # A Step that is offered to a Worker while it goes loses an attempt. What the last call has
        # set going is offered at once, so it is declined before.
        await asyncio.sleep(_DECLINES_FOR.total_seconds())


class _NoAgent:
    """In the place of a runner where no Step runs."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        _refuse()

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        _refuse()

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        _refuse()


def _refuse() -> NoReturn:
    raise RuntimeError("this Worker answers RPCs alone; no Step is to reach it")
