"""A Worker that is told to end while in any method of any Step: another finishes, and nobody is told of an end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import evolve

from dex_agents_dex.cli.desk import answering_at
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE, DexServer
from dex_agents_dex.testing import AgentTestStack
from dex_agents_dex.testing.plugin import OpenAgentTestStack
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT
from dex_agents_model import AgentEventType, AgentSnapshot
from dex_agents_model.table import SPECS

from .conftest import ROOT, WORKER
from .conversation import Conversation
from .flows import COMPACTING, SCRIPTED, STATE_DIR_VARIABLE, build_flows
from .stops import CANCELLED, COMPLETED, FAILED, STOPS

HELD_WORKER = "tests.binding.held_worker"
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def test_stops__are_in_every_method_of_every_step() -> None:
    methods = {
        f"{entry.step.__name__}.{method}"
        for entry in SPECS
        for method in ("wait_for", "execute")
        if method == "execute" or entry.wait is not None
    }

    assert {stop.point for stop in STOPS if stop.gate is None} == methods


async def test_worker__that_is_told_to_end_leaves_every_step_to_another(
    tmp_path: Path, open_agent_test_stack: OpenAgentTestStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
    stack = await _stack(open_agent_test_stack, tmp_path, HELD_WORKER)
    told = await stack.start_worker()
    conversations = {
        stop: Conversation(
            stack.sessions(stop.flow_type), f"{stop.point}-{uuid4().hex[:8]}", tmp_path
        )
        for stop in STOPS
    }
    await asyncio.gather(*(stop.begin(of) for stop, of in conversations.items()))
    for stop, conversation in conversations.items():
        await conversation.gate(stop.held_at).wait_until_reached()
    before = {stop.point: await _seen(of) for stop, of in conversations.items()}

    await told.stop()

    async with answering_at(DexServer(stack.server_address), [SCRIPTED, COMPACTING]):
        after = {stop.point: await _seen(of) for stop, of in conversations.items()}
    assert after == before

    for stop, conversation in conversations.items():
        conversation.gate(stop.held_at).release()
    other = await _stack(open_agent_test_stack, tmp_path, WORKER, on=stack)
    await other.start_worker()
    await asyncio.gather(*(stop.finish(of) for stop, of in conversations.items()))
    for stop, conversation in conversations.items():
        assert await _ends(conversation, len(stop.ends)) == list(stop.ends), stop.point


async def _stack(
    open_stack: OpenAgentTestStack,
    state_dir: Path,
    worker: str,
    *,
    on: AgentTestStack | None = None,
) -> AgentTestStack:
    return await open_stack(
        build_flows(state_dir),
        worker,
        worker_cwd=ROOT,
        worker_env={STATE_DIR_VARIABLE: str(state_dir)},
        server_address=None if on is None else on.server_address,
    )


async def _seen(conversation: Conversation) -> AgentSnapshot:
    """What the session shows, but for the moment at which it does."""
    snapshot = await conversation.sessions.get_agent_snapshot(conversation.session_id)
    return evolve(snapshot, observed_at=NEVER, event_token="")


async def _ends(conversation: Conversation, count: int) -> list[AgentEventType]:
    """The first ``count`` ends of turns that the session told of."""
    ends: list[AgentEventType] = []
    token = ""
    while len(ends) < count:
        read = await conversation.sessions.read_agent_event(
            conversation.session_id, token, timeout=DEFAULT_TIMEOUT
        )
        assert read is not None, f"{conversation.session_id} told of no end but {ends}"
        token = read.resume_token
        if read.event.type in (COMPLETED, FAILED, CANCELLED):
            ends.append(read.event.type)
    return ends
