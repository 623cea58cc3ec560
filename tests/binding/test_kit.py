"""The testing kit itself: what it promises to those who test agents of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dex_agents_dex import AgentRuntime, SessionNotFound
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    WAIT_FOR_COMPLETED_EVENT,
    AgentTestStack,
    FileGate,
    Invocation,
    InvocationLog,
    StepHistoryEntry,
    read_step_history,
    wait_for_agent_snapshot,
    wait_until,
)
from dex_agents_dex.testing.plugin import OpenFileGate
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT

from .conftest import ROOT, WORKER, Breakable, Served
from .conversation import Conversation
from .flows import STATE_DIR_VARIABLE, build_flows
from .script import Reply

AT_ONCE = timedelta(0)


async def test_wait_until__returns_the_first_true_thing() -> None:
    given = iter(["", None, "found", "more"])

    assert await wait_until("a word", lambda: next(given)) == "found"
    assert list(given) == ["more"]


async def test_wait_until__says_what_it_waited_for_and_saw() -> None:
    async def probe() -> str:
        return ""

    with pytest.raises(TimeoutError, match=r"^waited 0 s for a word; seen last: ''$"):
        await wait_until("a word", probe, AT_ONCE)


async def test_wait_for_agent_snapshot__shows_the_last_snapshot(conversation: Conversation) -> None:
    await conversation.start(Reply(text="an answer"))
    await conversation.end_of_turn()
    session_id = conversation.session_id

    with pytest.raises(TimeoutError) as raised:
        await wait_for_agent_snapshot(
            conversation.sessions,
            session_id,
            lambda snapshot: snapshot.pending_interrupts,
            description="a pending approval",
            timeout=AT_ONCE,
        )

    expected = (
        f"waited 0 s for a pending approval in session {session_id!r}; seen last: AgentSnapsh"
    )
    assert str(raised.value).startswith(expected)


async def test_wait_for_agent_snapshot__does_not_wait_for_a_session_that_is_not_there(
    conversation: Conversation,
) -> None:
    with pytest.raises(SessionNotFound):
        await conversation.end_of_turn()


async def test_file_gate__lets_pass_for_good(file_gate: OpenFileGate) -> None:
    gate = file_gate("a/b c")
    with pytest.raises(TimeoutError, match="a Worker at gate 'a/b c'"):
        await gate.wait_until_reached(AT_ONCE)

    passing = asyncio.create_task(_pass(gate))
    await gate.wait_until_reached()
    assert not passing.done()
    gate.release()

    await passing
    await _pass(gate)


def test_invocation_log__tells_calls_of_all_processes_in_order(
    invocation_log: InvocationLog, tmp_path: Path
) -> None:
    assert invocation_log.read() == ()
    invocation_log.record("look", key="k")
    code = (
        "import sys; from dex_agents_dex.testing import InvocationLog;"
        "InvocationLog(sys.argv[1]).record('put', key='k', attempt=2)"
    )
    path = str(tmp_path / "invocations")
    with subprocess.Popen([sys.executable, "-c", code, path], cwd=ROOT) as other:
        assert other.wait() == 0
    invocation_log.record("look")

    first = Invocation("look", "k", os.getpid(), 1)
    second = Invocation("put", "k", other.pid, 2)
    third = Invocation("look", "", os.getpid(), 1)
    assert invocation_log.read() == (first, second, third)
    assert invocation_log.read(name="look") == (first, third)
    assert invocation_log.read(key="k") == (first, second)


async def test_stack__names_what_a_worker_died_of(served: Served, tmp_path: Path) -> None:
    flows = build_flows(tmp_path)
    address = served.server_address
    async with AgentTestStack(tmp_path, flows, "no_such_module", server_address=address) as stack:
        with pytest.raises(RuntimeError, match=r"worker-1 ended with code 1: .*No module named"):
            await stack.start_worker()


async def test_stack__leaves_a_named_server_alone(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SERVER_ADDRESS_VARIABLE, served.server_address)
    async with AgentTestStack(tmp_path, build_flows(tmp_path), WORKER) as stack:
        assert stack.server_address == served.server_address
        with pytest.raises(RuntimeError, match="is not this stack's own and is left alone"):
            stack.kill_engine()
        with pytest.raises(RuntimeError, match="is not this stack's own and is left alone"):
            await stack.restart_engine()


async def test_worker__is_frozen_by_a_pause_and_ends_at_a_stop(breakable: Breakable) -> None:
    worker = await breakable.stack.start_worker()

    worker.pause()
    assert _next_change(worker.pid) == os.CLD_STOPPED
    worker.resume()
    assert _next_change(worker.pid) == os.CLD_CONTINUED
    await worker.stop()
    assert not worker.is_running

    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(text="an answer"))
    assert await conversation.answers() == ["an answer"]


async def test_worker__ends_with_whoever_holds_its_input(served: Served, tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", WORKER),
        cwd=ROOT,
        env={
            **os.environ,
            SERVER_ADDRESS_VARIABLE: served.server_address,
            STATE_DIR_VARIABLE: str(tmp_path),
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        ready = f"agent worker ready, pid {worker.pid}\n"
        assert await worker.stdout.readline() == ready.encode()
        worker.stdin.close()
        async with asyncio.timeout(DEFAULT_TIMEOUT.total_seconds()):
            assert await worker.wait() == 0
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


async def test_step_history__tells_each_method_that_ended(
    conversation: Conversation, runtime: AgentRuntime
) -> None:
    await conversation.start(Reply(crash="lost", crashes_until_attempt=1))
    await conversation.end_of_turn()

    async def complete() -> tuple[StepHistoryEntry, ...] | None:
        entries = await read_step_history(runtime.server_address, conversation.session_id)
        return entries if len(entries) == 3 else None

    assert await wait_until("three entries", complete) == (
        StepHistoryEntry(EXECUTE_COMPLETED_EVENT, "StartAgentSession", "StartAgentSession-1", 1),
        StepHistoryEntry(EXECUTE_COMPLETED_EVENT, "RunModel", "RunModel-1", 2),
        StepHistoryEntry(WAIT_FOR_COMPLETED_EVENT, "AwaitUserMessage", "AwaitUserMessage-1", 1),
    )


async def _pass(gate: FileGate) -> None:
    gate.mark_reached()
    await gate.wait_for_release()


def _next_change(pid: int) -> int:
    """How the process changed its state, once it does."""
    changed = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED)
    assert changed is not None
    return changed.si_code
