"""Where no Worker serves the agent, a command answers RPCs itself, and runs no Step."""

from __future__ import annotations

import asyncio

from dex_agents_dex import AgentSessionClient
from dex_agents_dex.cli.desk import answering_at
from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    WAIT_FOR_COMPLETED_EVENT,
    read_step_history,
    wait_until,
)
from dex_agents_model import AgentSnapshot
from dex_agents_model.records import TurnCancelled, WaitingForUserMessage

from . import agent
from .conftest import Bench, wait_for_end


def _steps(bench: Bench, session_id: str) -> list[tuple[str, int]]:
    """Each Step that has ended, and at which attempt."""
    history = asyncio.run(read_step_history(bench.engine.server_address, session_id))
    return [(entry.step_type, entry.final_attempt) for entry in history]


def _begin(bench: Bench, session_id: str, text: str) -> None:
    async def begin(sessions: AgentSessionClient) -> None:
        await sessions.start_session(session_id, text)

    bench.on_sessions(begin)


def _ask_and_lose_the_worker(bench: Bench, session_id: str) -> None:
    """The session waits for a person, and nobody serves it."""
    address = bench.engine.server_address

    async def waits() -> bool:
        history = await read_step_history(address, session_id)
        return ("AwaitToolApproval", WAIT_FOR_COMPLETED_EVENT) in {
            (entry.step_type, entry.event_type) for entry in history
        }

    async def ask(sessions: AgentSessionClient) -> None:
        worker = await bench.serve()
        await sessions.start_session(session_id, "note this")
        await wait_until("the Step that waits for a person", waits)
        worker.kill()

    bench.on_sessions(ask)


def _serve_to_the_end(bench: Bench, session_id: str) -> AgentSnapshot:
    """The session after a Worker has come and its first turn has ended."""

    async def serve(sessions: AgentSessionClient) -> AgentSnapshot:
        await bench.serve()
        return await wait_for_end(sessions, session_id)

    return bench.on_sessions(serve)


def test_no_step_runs__while_a_command_reads_and_sends(bench: Bench, session_id: str) -> None:
    _begin(bench, session_id, "hello")

    assert bench.read("show", session_id)["snapshot"]["state"] is None
    assert bench.read("send", session_id, "later") == {"accepted": True}
    assert [each["text"] for each in bench.read("queue", session_id)] == ["later"]
    assert _steps(bench, session_id) == []


def test_no_attempt_is_spent__by_a_step_that_a_command_declined(
    bench: Bench, session_id: str
) -> None:
    _begin(bench, session_id, "hello")
    bench.run("show", session_id)  # it is offered the session's first Step
    _serve_to_the_end(bench, session_id)

    async def talk_beside_a_command(sessions: AgentSessionClient) -> None:
        async with answering_at(bench.dex_server, [agent.FLOW_TYPE]):
            for number in range(10):
                await sessions.send_user_message(session_id, f"hello {number}")
                await wait_for_end(sessions, session_id, turn_count=number + 2)

    bench.on_sessions(talk_beside_a_command)
    steps = _steps(bench, session_id)
    assert ("RunModel", 1) in steps
    assert {attempt for _, attempt in steps} == {1}


def test_approve__is_kept_for_the_worker_that_comes(bench: Bench, session_id: str) -> None:
    _ask_and_lose_the_worker(bench, session_id)

    assert bench.run("approve", session_id, "turn-1.call-1").exit_code == 0
    assert bench.read("show", session_id)["snapshot"]["pending_interrupts"] == []
    assert agent.calls(bench.state_dir).read(name="note") == ()

    assert _serve_to_the_end(bench, session_id).messages[-1].text == "note done: note this."
    assert [call.attempt for call in agent.calls(bench.state_dir).read(name="note")] == [1]
    history = asyncio.run(read_step_history(bench.engine.server_address, session_id))
    (answered,) = (
        entry
        for entry in history
        if entry.step_type == "AwaitToolApproval" and entry.event_type == EXECUTE_COMPLETED_EVENT
    )
    assert answered.final_attempt == 1  # it was offered to the command, which declined it


def test_cancel__is_kept_for_the_worker_that_comes(bench: Bench, session_id: str) -> None:
    _ask_and_lose_the_worker(bench, session_id)

    assert bench.run("cancel", session_id).exit_code == 0

    state = _serve_to_the_end(bench, session_id).state
    assert isinstance(state, WaitingForUserMessage)
    assert state.last_turn == TurnCancelled()
    assert agent.calls(bench.state_dir).read(name="note") == ()
