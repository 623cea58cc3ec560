"""However many messages arrive at once, from however many programs, a session runs one turn at a time.

Each message is in exactly one turn, in the order in which the session took it; a turn's messages
stand together in the history, and its tool runs once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from dex_agents_dex import AgentRuntime, AgentSessionClient, SessionBusy
from dex_agents_dex.testing import wait_until
from dex_agents_model import (
    AgentMessage,
    AgentSessionOptions,
    AgentSnapshot,
    MessageRole,
    ToolEffect,
    ToolPolicy,
)
from dex_agents_model.simulation import (
    NO_FAULTS,
    ONE_FAULT,
    Asks,
    Concludes,
    Faults,
    Says,
    Scenario,
    ScriptedRunner,
    Steers,
    ToolUse,
    explore,
)
from dex_agents_model.simulation.scenario import Act
from tests.binding.script import Call, Reply, script

from .agent import OBEDIENT, build_flows
from .bench import Bench, Talk

A_TURN = (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL, MessageRole.ASSISTANT)


def message(name: str, gate: str | None = None) -> str:
    """What makes the model pay once, at a gate or at once, and then answer with ``name``."""
    return script(Reply(calls=(Call(id="c", tool="pay", gate=gate),)), Reply(text=name))


async def start(talk: Talk, gate: str | None = None) -> None:
    """Begin with a turn of the same kind, whose message is called ``first``."""
    text = message("first", gate)
    await talk.sessions.start_session(talk.session_id, text, message_id="first")


async def send(sessions: AgentSessionClient, talk: Talk, name: str) -> None:
    """Send until the session takes it; with its ID it counts once."""

    async def is_taken() -> bool:
        try:
            return await sessions.send_user_message(talk.session_id, message(name), message_id=name)
        except SessionBusy:
            return False

    await wait_until(f"the sending of {name}", is_taken)


@asynccontextmanager
async def programs(bench: Bench, count: int) -> AsyncIterator[list[AgentSessionClient]]:
    """Clients with connections of their own."""
    address = bench.shared.stack.server_address
    async with AsyncExitStack() as opened:
        yield [
            (
                await opened.enter_async_context(
                    AgentRuntime(*build_flows(bench.state_dir), server_address=address, serve=False)
                )
            ).sessions(OBEDIENT)
            for _ in range(count)
        ]


async def has_ended(talk: Talk, turn: int) -> None:
    def ended(snapshot: AgentSnapshot) -> bool:
        state = snapshot.state
        if state is None or state.turn_count < turn:
            return False
        return state.turn_count > turn or state.active_turn_id is None

    await talk.when(f"the end of turn {turn}", ended)


async def order_of_turns(talk: Talk, count: int) -> list[str]:
    """The names of the messages by turn, once ``count`` have ended and none of them met another."""
    for turn in range(1, count + 1):
        await has_ended(talk, turn)
    turns: dict[int, list[AgentMessage]] = {}
    stored = await talk.messages()
    for each in stored:
        turns.setdefault(each.turn_id.number, []).append(each)
    numbers = [each.turn_id.number for each in stored]
    assert numbers == sorted(numbers)
    assert list(turns) == list(range(1, count + 1))
    assert {tuple(each.role for each in own) for own in turns.values()} == {A_TURN}
    names = [own[-1].text or "" for own in turns.values()]
    assert [own[0].message_id for own in turns.values()] == names
    await talk.history()
    return names


def assert_ran_one_at_a_time(talk: Talk, count: int) -> None:
    """What really began, in this order: in each turn a model call, the tool, a model call."""
    turns = range(1, count + 1)
    assert talk.keys("model") == [f"turn-{turn}/{call}" for turn in turns for call in (0, 1)]
    assert talk.keys("pay") == [f"turn-{turn}/c" for turn in turns]
    assert [name for name, _ in talk.calls()] == ["model", "pay", "model"] * count


async def test_sends__fifty_at_once_are_fifty_turns_in_the_order_of_the_queue(
    bench: Bench,
) -> None:
    talk = bench.talk()
    names = [f"message {number}" for number in range(50)]
    async with programs(bench, 3) as clients:
        await start(talk, gate="here")
        await talk.gate("here").wait_until_reached()
        await asyncio.gather(
            *(send(clients[n % len(clients)], talk, name) for n, name in enumerate(names))
        )

    page = await talk.sessions.list_queued_messages(talk.session_id)
    queued = [waiting.message_id for waiting in page.messages]
    assert sorted(queued) == sorted(names)
    talk.gate("here").release()

    assert await order_of_turns(talk, 51) == ["first", *queued]
    assert_ran_one_at_a_time(talk, 51)


async def test_sends__while_turns_begin_and_end_keep_the_order_of_each_sender(
    bench: Bench,
) -> None:
    """A second Worker helps, and dies in the middle of it all."""
    talk = bench.talk()
    helper = await bench.shared.stack.start_worker()
    async with programs(bench, 4) as clients:
        await start(talk)

        async def say_all(number: int) -> None:
            for name in "abcde":
                await send(clients[number], talk, f"{number}{name}")

        await asyncio.gather(*map(say_all, range(4)))
        helper.kill()

    names = await order_of_turns(talk, 21)
    assert len(set(talk.keys("pay"))) == len(talk.keys("pay"))
    for number in range(4):
        assert [name for name in names if name.startswith(str(number))] == [
            f"{number}{name}" for name in "abcde"
        ]


async def test_sends__of_one_message_from_many_programs_are_one_turn(bench: Bench) -> None:
    talk = bench.talk()
    async with programs(bench, 4) as clients:
        await start(talk)
        await asyncio.gather(*(send(client, talk, "once") for client in clients for _ in range(4)))
    await send(talk.sessions, talk, "last")

    assert await order_of_turns(talk, 3) == ["first", "once", "last"]
    assert_ran_one_at_a_time(talk, 3)


# --- in the model: messages that arrive at every transition of turns with tools -----------------------

OPTIONS = AgentSessionOptions(
    tool_policies={"pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False)}
)
TURN = (Asks(ToolUse("c", "pay")), Concludes("Done."))


@pytest.mark.parametrize(
    ("acts", "faults"),
    [
        ((Says("one"),), ONE_FAULT),
        ((Says("one"), Says("two"), Says("three")), NO_FAULTS),
        ((Says("one"), Says("two"), Steers("three")), NO_FAULTS),
    ],
    ids=["one message", "three messages", "two messages and one that steers"],
)
def test_messages__are_turns_one_at_a_time_in_every_interleaving(
    acts: tuple[Act, ...], faults: Faults
) -> None:
    seen = explore(
        Scenario(
            name="messages",
            about="users speak while turns with tools begin and end",
            is_timed=False,
            first_message="first",
            options=OPTIONS,
            runner=ScriptedRunner(dict.fromkeys(("first", "one", "two", "three"), TURN)),
            acts=acts,
        ),
        faults=faults,
    )

    assert (seen.findings, seen.is_complete) == ((), True)
