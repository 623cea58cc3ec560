"""A server that gives an attempt out twice, a Worker that comes too late: a single-attempt tool starts at most once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    Cable,
    ChildProgram,
)
from dex_agents_dex.testing.plugin import OpenAgentTestStack
from dex_agents_dex.testing.serving import READY_LINE
from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT

from .conftest import ROOT, WORKER, Breakable
from .conversation import Conversation
from .flows import SCRIPTED, STATE_DIR_VARIABLE, UNFENCED, build_flows
from .late_worker import CABLE_VARIABLE
from .lives import executions
from .script import Call, Reply

LATE_WORKER: Final = "tests.binding.late_worker"
HELD_WORKER: Final = "tests.binding.held_worker"
PAYS: Final = (Reply(calls=(Call(id="c", tool="pay", gate="paying"),)), Reply(text="an answer"))


@pytest_asyncio.fixture
async def redelivering(
    tmp_path: Path,
    open_agent_test_stack: OpenAgentTestStack,
    new_session_id: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Breakable:
    """A server that gives the same attempt to another Worker when the first vanished without a word."""
    monkeypatch.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
    stack = await open_agent_test_stack(
        build_flows(tmp_path),
        WORKER,
        worker_cwd=ROOT,
        worker_env={STATE_DIR_VARIABLE: str(tmp_path)},
        engine_options=("--redelivery", "same-attempt"),
    )
    return Breakable(stack, tmp_path, new_session_id)


@pytest_asyncio.fixture
async def cable(redelivering: Breakable) -> AsyncIterator[Cable]:
    async with Cable(redelivering.stack.server_address) as laid:
        yield laid


async def _worker(on: Breakable, module: str, **env: str) -> ChildProgram:
    """One that the stack does not know of: who starts it ends it."""
    worker = ChildProgram(
        module.rpartition(".")[2],
        [module],
        log_path=on.state_dir / f"{module}.log",
        cwd=ROOT,
        env={
            STATE_DIR_VARIABLE: str(on.state_dir),
            SERVER_ADDRESS_VARIABLE: on.stack.server_address,
            **env,
        },
    )
    await worker.wait_for_line(READY_LINE)
    return worker


async def _late_worker(on: Breakable, cable: Cable) -> ChildProgram:
    return await _worker(on, LATE_WORKER, **{CABLE_VARIABLE: cable.address})


def _conversation(on: Breakable, flow_type: str) -> Conversation:
    return Conversation(on.stack.sessions(flow_type), on.new_session_id(), on.state_dir)


async def test_late_worker__that_was_given_the_same_attempt_runs_nothing(
    redelivering: Breakable, cable: Cable
) -> None:
    """Its claim reaches the session after the other Worker's."""
    conversation = _conversation(redelivering, SCRIPTED)
    cable.duplicate_delivery("CallSingleAttemptTool")
    late = await _late_worker(redelivering, cable)
    try:
        await conversation.start(*PAYS)
        await cable.wait_until_broken()
        await conversation.gate("claiming").wait_until_reached()

        prompt = await redelivering.stack.start_worker()
        await conversation.gate("paying").wait_until_reached()
        conversation.gate("claiming").release()
        await conversation.gate("claim refused").wait_until_reached()
        conversation.gate("paying").release()

        assert await conversation.answers() == ["c: done", "an answer"]
    finally:
        late.kill()
    assert conversation.processes("pay") == [prompt.pid]
    assert ("CallSingleAttemptTool", EXECUTE_COMPLETED_EVENT, 1) in await executions(
        conversation, redelivering.stack
    )


async def test_late_worker__of_an_erased_session_runs_nothing_for_the_one_that_has_its_id_now(
    redelivering: Breakable, cable: Cable
) -> None:
    """The same turn asks for a call of the same ID, which nobody has claimed yet."""
    session_id = redelivering.new_session_id()
    held_at = "CallSingleAttemptTool.execute"
    conversation = Conversation(
        redelivering.stack.sessions(SCRIPTED), f"{held_at}-{session_id}", redelivering.state_dir
    )
    cable.duplicate_delivery("CallSingleAttemptTool-1")
    workers = [await _late_worker(redelivering, cable)]
    try:
        await conversation.start(*PAYS)
        await cable.wait_until_broken()
        await conversation.gate("claiming").wait_until_reached()
        await conversation.sessions.erase_session(conversation.session_id)

        prompt = await _worker(redelivering, HELD_WORKER)
        workers.append(prompt)
        await conversation.start(*PAYS)
        await conversation.gate(held_at).wait_until_reached()
        conversation.gate("claiming").release()
        await conversation.gate("claim refused").wait_until_reached()
        conversation.gate(held_at).release()
        conversation.gate("paying").release()

        assert await conversation.answers() == ["c: done", "an answer"]
    finally:
        for worker in workers:
            worker.kill()
    assert conversation.processes("pay") == [prompt.pid]


async def test_second_worker__that_is_given_a_claimed_attempt_runs_nothing(
    redelivering: Breakable, cable: Cable
) -> None:
    """The first claimed it and runs the tool, and its server hears no word of that."""
    conversation = _conversation(redelivering, SCRIPTED)
    cable.lose_words_from("tool_call_started")
    first = await redelivering.stack.start_worker(cable.address)
    await conversation.start(*PAYS)
    await cable.wait_until_broken()
    await conversation.gate("paying").wait_until_reached()

    await redelivering.stack.start_worker()

    assert await conversation.answers() == [f"c: {OUTCOME_UNKNOWN_TOOL_RESULT}", "an answer"]
    conversation.gate("paying").release()
    cable.mend()
    await first.stop()
    assert conversation.processes("pay") == [first.pid]
    assert ("CallSingleAttemptTool", EXECUTE_FAILED_EVENT, 1) in await executions(
        conversation, redelivering.stack
    )


async def test_duplicate_delivery__starts_a_tool_twice_that_nothing_fences(
    redelivering: Breakable, cable: Cable
) -> None:
    """What the claims are for; and what shows that the other tests meet a real duplicate."""
    conversation = _conversation(redelivering, UNFENCED)
    cable.duplicate_delivery("CallSingleAttemptTool")
    first = await redelivering.stack.start_worker(cable.address)
    await conversation.start(*PAYS)
    await cable.wait_until_broken()
    await conversation.gate("paying").wait_until_reached()

    second = await redelivering.stack.start_worker()
    conversation.gate("paying").release()

    assert await conversation.answers() == ["c: done", "an answer"]
    assert conversation.calls().count(("pay", 1)) == 2
    assert conversation.processes("pay") == [first.pid, second.pid]
