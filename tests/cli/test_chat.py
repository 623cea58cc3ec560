"""`chat` on a terminal: what a person types and sees."""

from __future__ import annotations

from dex_agents_model.records import TurnCancelled, WaitingForUserMessage
from dex_agents_model.text import digest

from . import agent
from .conftest import ROOT, Bench
from .pty_program import PtyProgram


def _chat(bench: Bench, session_id: str, *options: str) -> PtyProgram:
    return PtyProgram(
        [
            *("dex_agents_dex.cli", "chat", agent.NAME, "--session", session_id),
            *bench.server,
            *options,
        ],
        cwd=ROOT,
        env={agent.STATE_DIR_VARIABLE: str(bench.state_dir)},
    )


async def test_chat__shows_answers_and_says_how_to_go_on(served: Bench, session_id: str) -> None:
    with _chat(served, session_id) as chat:
        await chat.wait_to_see("/help lists commands")
        chat.type("hello there")
        await chat.wait_to_see("● You said hello there.")
        async with served.client() as sessions:
            await sessions.send_user_message(session_id, "from elsewhere")
        await chat.wait_to_see("> from elsewhere")
        await chat.wait_to_see("● You said from elsewhere.")
        chat.type("/quit")

        assert await chat.exit_code() == 0
        assert f"dex-agents chat {agent.NAME} --session {session_id} --server" in chat.seen


async def test_chat__asks_before_a_tool_runs(served: Bench, session_id: str) -> None:
    """Edited, refused with a reason, and answered by somebody else."""
    with _chat(served, session_id) as chat:
        chat.type("note this")
        await chat.wait_to_see('? note {"text": "note this"}')
        chat.type("what?")
        await chat.wait_to_see("y, n or e; `/steer TEXT`")
        chat.type("e")
        await chat.wait_to_see("arguments >")
        chat.press("\x15")  # Ctrl-U: what stands there is to go
        chat.type("[1]")
        await chat.wait_to_see("that is no JSON object but [1]")
        chat.press("\x15")
        chat.type('{"text": "better"}')
        await chat.wait_to_see("note done: better")

        chat.type("note that")
        await chat.wait_to_see("y/n/e >")
        chat.type("n not today")
        await chat.wait_to_see("note  rejected  not today")

        chat.type("note more")
        await chat.wait_to_see("y/n/e >")
        async with served.client() as sessions:
            await sessions.resolve_interrupt(session_id, "turn-3.call-1", approved=True)
            await chat.wait_to_see("  approved")
            await chat.wait_to_see("note done: note more.")
            records = (await sessions.list_approvals(session_id)).approvals

    assert [record.decision for record in records] == ["approved", "rejected", "approved"]
    assert records[0].edited_arguments_digest == digest('{"text": "better"}')


async def test_chat__steers_queues_and_lists(served: Bench, session_id: str) -> None:
    with _chat(served, session_id) as chat:
        chat.type("wait here")
        await chat.wait_to_see("running wait")
        chat.type("/steer the other way")
        await chat.wait_to_see("(to the running turn)")
        chat.type("and then")
        await chat.wait_to_see("and then (queued)")
        chat.type("/queue")
        await chat.wait_to_see("  and then")
        served.gate(session_id).release()
        await chat.wait_to_see("the turn goes on with what you said")
        await chat.wait_to_see("wait done: wait here. Meanwhile: the other way.")
        await chat.wait_to_see("You said and then.")


async def test_chat__cancels_at_the_first_ctrl_c_and_leaves_at_the_second(
    served: Bench, session_id: str
) -> None:
    with _chat(served, session_id, "--no-worker") as chat:
        chat.type("wait here")
        await chat.wait_to_see("running wait")
        chat.press("\x03")
        await chat.wait_to_see("the turn was cancelled")
        chat.press("\x03")

        assert await chat.exit_code() == 0
    async with served.client() as sessions:
        snapshot = await sessions.get_agent_snapshot(session_id)
    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert snapshot.state.last_turn == TurnCancelled()


async def test_chat__after_a_kill_goes_on_where_the_session_is(
    bench: Bench, session_id: str
) -> None:
    with _chat(bench, session_id) as chat:  # it is the only Worker
        chat.type("hello")
        await chat.wait_to_see("You said hello.")
        chat.type("wait here")
        await bench.gate(session_id).wait_until_reached()
        chat.kill()

    with _chat(bench, session_id) as again:
        await again.wait_to_see("> hello")
        await again.wait_to_see("● You said hello.")
        await again.wait_to_see("> wait here")
        await again.wait_to_see("turn-2 is running")
        bench.gate(session_id).release()
        await again.wait_to_see("● wait done: wait here.")
    # Whether the chat saw the second attempt begin depends on which of them was there first.
    ran = agent.calls(bench.state_dir).read(name="wait")
    assert [call.attempt for call in ran if call.key.startswith(session_id)] == [1, 2]


async def test_chat__outlasts_its_worker(bench: Bench, session_id: str) -> None:
    worker = await bench.serve()
    with _chat(bench, session_id, "--no-worker") as chat:
        chat.type("wait here")
        await bench.gate(session_id).wait_until_reached()
        worker.kill()
        bench.gate(session_id).release()
        await bench.serve()
        await chat.wait_to_see("wait starts again, attempt 2")
        await chat.wait_to_see("● wait done: wait here.")


async def test_chat__ends_when_its_server_does(bench: Bench, session_id: str) -> None:
    with _chat(bench, session_id) as chat:
        chat.type("hello")
        await chat.wait_to_see("You said hello.")
        bench.engine.kill()

        assert await chat.exit_code() == 3
        error, go_on = chat.seen.splitlines()[-2:]
        assert "error: no Dex server answers at" in error
        assert go_on.startswith(f"go on with: dex-agents chat {agent.NAME} --session {session_id}")
        assert "Traceback" not in chat.seen
