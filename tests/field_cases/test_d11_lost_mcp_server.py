"""An MCP server that dies, hangs or does not start fails the calls that it had, and no other: its tools stay.

The next call finds it started again. A read is tried again, a write only with its key, and a write
without one never: what its server did is unknown. No server outlives the Worker that started it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from attrs import frozen

from dex_agents_dex import AgentRuntime
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE
from dex_agents_dex.testing import AgentTestStack, wait_until
from dex_agents_model.notes import OUTCOME_UNKNOWN_TOOL_RESULT
from dex_agents_model.records import TurnCancelled, TurnFailed, WaitingForUserMessage
from tests.binding.conftest import ROOT
from tests.binding.script import Call, Reply
from tests.binding.scripted_runner import invocations_in

from . import worker
from .bench import SharedStack, Talk
from .mcp_server import DIES_AFTER_LISTING, DOWN, served_in

pytest.importorskip("pydantic_ai.mcp", reason="needs the extra mcp of Pydantic AI")
mcp_agent = pytest.importorskip("tests.field_cases.mcp_agent")

ALL_TOOLS = "look,pay,poke,put"
UNKNOWN = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
DONE = "success: done"
NEVER_STARTED = "failed: The tool call failed: the call never started: tool "


@frozen
class Connected:
    """A session whose agent has an MCP server, and what that was told."""

    shared: SharedStack
    talk: Talk

    @property
    def state_dir(self) -> Path:
        return self.shared.state_dir

    def kill_worker(self) -> None:
        self.shared.worker.kill()

    async def start_worker(self) -> None:
        await self.shared.start_worker()

    def kill_servers(self) -> None:
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)

    def served(self, tool: str, call: str = "c") -> int:
        """How often the MCP server was asked for a call."""
        return len(served_in(self.state_dir).read(name=tool, key=call))

    def servers(self) -> list[int]:
        """The MCP servers that run now."""
        return [
            start.pid for start in served_in(self.state_dir).read(name="start") if _runs(start.pid)
        ]

    async def assert_all_tools_work(self, turn: int) -> None:
        """One more turn, in which the model is offered every tool and calls each."""
        calls = tuple(Call(id=f"after-{tool}", tool=tool) for tool in ALL_TOOLS.split(","))
        assert await self.talk.say(Reply(calls=calls), Reply(text="all of them"))
        assert (await self.talk.answers(turn))[-1] == "all of them"
        assert await self.talk.told(turn) == {call.id: DONE for call in calls}
        offered = invocations_in(self.state_dir).read(name="offered")
        mine = {o.key for o in offered if o.key.startswith(f"{self.talk.session_id}/")}
        assert mine == {f"{self.talk.session_id}/{ALL_TOOLS}"}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedStack]:
    """A server and a Worker of this module's own, which needs what no other case does."""
    state_dir = tmp_path_factory.mktemp("mcp")
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv(SERVER_ADDRESS_VARIABLE, raising=False)
        async with AgentTestStack(
            state_dir,
            mcp_agent.build_flows(state_dir),
            mcp_agent.__name__,
            worker_cwd=ROOT,
            worker_env={worker.STATE_DIR: str(state_dir)},
        ) as stack:
            yield SharedStack(stack, state_dir, await stack.start_worker())


@pytest_asyncio.fixture
async def connected(
    shared: SharedStack, new_session_id: Callable[[], str]
) -> AsyncIterator[Connected]:
    await shared.start_worker()
    flows = mcp_agent.build_flows(shared.state_dir)
    address = shared.stack.server_address
    async with AgentRuntime(*flows, server_address=address, serve=False) as runtime:
        sessions = runtime.sessions(mcp_agent.CONNECTED)
        yield Connected(shared, Talk(sessions, new_session_id(), shared.state_dir))


DIED = {"look": DONE, "put": DONE, "pay": UNKNOWN}


@pytest.mark.parametrize("tool", DIED)
async def test_call__whose_server_dies_ends_as_its_effect_says_and_every_tool_stays(
    connected: Connected, tool: str
) -> None:
    talk = connected.talk
    calls = (Call(id=f"die {tool}", tool=tool, way="die"), Call(id="own", tool="poke"))
    await talk.start(Reply(calls=calls), Reply(text="an answer"))

    assert (await talk.answers())[-1] == "an answer"
    assert await talk.told() == {f"die {tool}": DIED[tool], "own": DONE}
    assert connected.served(tool, f"die {tool}") == (1 if tool == "pay" else 2)
    await connected.assert_all_tools_work(2)


async def test_calls__whose_server_dies_between_listing_and_calling_reach_the_next_one(
    connected: Connected,
) -> None:
    """A Worker that lists for the first time: later it knows the tools."""
    talk = connected.talk
    connected.kill_worker()
    await connected.start_worker()
    (connected.state_dir / DIES_AFTER_LISTING).touch()
    await talk.start(Reply(calls=(Call(id="between", tool="look"),)), Reply(text="an answer"))

    assert (await talk.answers())[-1] == "an answer"
    assert await talk.told() == {"between": DONE}
    assert not (connected.state_dir / DIES_AFTER_LISTING).exists()
    assert connected.served("look", "between") == 1
    await connected.assert_all_tools_work(2)


async def test_write__whose_server_does_not_start_never_began(connected: Connected) -> None:
    """Nothing of it is unknown: the agent could not even come to call it, nor the tool beside it."""
    talk = connected.talk
    calls = (Call(id="paid", tool="pay"), Call(id="own", tool="poke"))
    await talk.start(Reply(gate="asked", calls=calls), Reply(text="an answer"))
    await talk.gate("asked").wait_until_reached()
    (connected.state_dir / DOWN).touch()
    connected.kill_servers()
    talk.gate("asked").release()
    await talk.when(
        "both failures", lambda seen: [c.status for c in seen.tool_calls] == ["failed"] * 2
    )
    (connected.state_dir / DOWN).unlink()

    assert (await talk.answers())[-1] == "an answer"
    told = await talk.told()
    assert [text.startswith(NEVER_STARTED) for text in told.values()] == [True, True]
    assert (connected.served("pay", "paid"), talk.keys("poke")) == (0, [])
    await connected.assert_all_tools_work(2)


async def test_session__outlives_a_server_that_does_not_start(connected: Connected) -> None:
    talk = connected.talk
    (connected.state_dir / DOWN).touch()
    connected.kill_servers()
    await talk.start(Reply(text="never said"))

    state = (await talk.end_of_turn()).state
    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnFailed)
    (connected.state_dir / DOWN).unlink()
    await connected.assert_all_tools_work(2)


async def test_turn__that_is_cancelled_in_a_call_leaves_the_connection_usable(
    connected: Connected,
) -> None:
    talk = connected.talk
    call = f"stuck {talk.session_id}"
    calls = (Call(id=call, tool="pay", way="stuck"), Call(id="ask", tool="look"))
    await talk.start(Reply(calls=calls), Reply(text="never said"))
    await wait_until("the call that hangs", lambda: connected.served("pay", call))

    assert await talk.sessions.cancel_turn(talk.session_id)

    state = (await talk.end_of_turn()).state
    assert isinstance(state, WaitingForUserMessage)
    assert isinstance(state.last_turn, TurnCancelled)
    await connected.assert_all_tools_work(2)
    assert connected.served("pay", call) == 1
    assert len(connected.servers()) == 1


async def test_worker__that_is_killed_in_a_call_leaves_no_server_behind(
    connected: Connected,
) -> None:
    talk = connected.talk
    call = f"stuck {talk.session_id}"
    await talk.start(
        Reply(calls=(Call(id=call, tool="pay", way="stuck"),)), Reply(text="an answer")
    )
    await wait_until("the call that hangs", lambda: connected.served("pay", call))

    connected.kill_worker()
    await wait_until("the end of its server", lambda: not connected.servers())
    await connected.start_worker()

    assert (await talk.answers())[-1] == "an answer"
    assert await talk.told() == {call: UNKNOWN}
    assert connected.served("pay", call) == 1
    await connected.assert_all_tools_work(2)
