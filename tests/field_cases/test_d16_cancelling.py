"""Once a cancel is accepted, its turn calls no model and starts no tool any more, and ends with one terminal event.

The event tells how the turn ended, as the state does: a cancel that meets the turn's own end may come
too late, but never turns into a success later. What was queued runs next, wherever the turn stood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest
from attrs import frozen

from dex_agents_dex import ReadEvent
from dex_agents_dex.dex_server import DexServer
from dex_agents_dex.server_history import history_events
from dex_agents_model import AgentSessionOptions, ToolEffect, ToolPolicy, TurnId
from dex_agents_model.events import TurnCancelledEvent, TurnCompletedEvent, TurnFailedEvent
from dex_agents_model.records import (
    TurnCancelled,
    TurnEnd,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.simulation import (
    NO_FAULTS,
    ONE_FAULT,
    Asks,
    Breaks,
    Cancels,
    Concludes,
    GivesUp,
    Says,
    Scenario,
    ScriptedRunner,
    SimulatedWorld,
    ThoroughRunner,
    ToolUse,
    explore,
)
from tests.binding.script import Call, Reply

from .bench import Bench, Talk

TERMINAL = TurnCompletedEvent | TurnFailedEvent | TurnCancelledEvent
LATER = Reply(text="later")
MORE = tuple(Reply(calls=(Call(id=f"c-{n}", tool="pay"),)) for n in range(2, 9))
"""Seven more rounds that a cancelled turn never comes to."""


async def at_a_model_call(talk: Talk) -> None:
    await talk.start(Reply(gate="here", calls=(Call(id="c-1", tool="pay"),)), *MORE)
    await talk.gate("here").wait_until_reached()


async def at_a_tool(talk: Talk) -> None:
    await talk.start(Reply(calls=(Call(id="c-1", tool="pay", gate="here"),)), *MORE)
    await talk.gate("here").wait_until_reached()


async def at_a_question(talk: Talk) -> None:
    await talk.start(Reply(calls=(Call(id="c-1", tool="ask"),)), *MORE)
    await talk.questions()


async def at_a_tool_beside_a_question(talk: Talk) -> None:
    both = (Call(id="c-1", tool="look", gate="here"), Call(id="c-2", tool="ask"))
    await talk.start(Reply(calls=both), *MORE)
    await talk.questions()
    await talk.gate("here").wait_until_reached()


async def between_attempts(talk: Talk) -> None:
    """The model call has failed twice: the third attempt is due in a while."""
    await talk.start(Reply(crash="lost", calls=(Call(id="c-1", tool="pay"),)), *MORE)
    await talk.has_begun("model", 2)


PLACES = (at_a_model_call, at_a_tool, at_a_question, at_a_tool_beside_a_question, between_attempts)


async def cancel(talk: Talk, turn_id: str | None = None) -> bool:
    return await talk.sessions.cancel_turn(talk.session_id, turn_id)


async def ends_of(talk: Talk, turns: int) -> dict[int, list[TERMINAL]]:
    """The terminal events of each turn, up to the first one of the last of so many."""
    ends: dict[int, list[TERMINAL]] = {number: [] for number in range(1, turns + 1)}
    async with aclosing(talk.sessions.follow(talk.session_id, "")) as followed:
        async for read in followed:
            assert isinstance(read, ReadEvent)
            if isinstance(read.event.payload, TERMINAL):
                ends[read.event.turn_id.number].append(read.event.payload)
                if ends[turns]:
                    break
    await talk.end_of_turn(turns)
    return ends


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_cancel__ends_the_turn_where_it_stands_and_the_queue_goes_on(
    bench: Bench, place: Callable[[Talk], Awaitable[None]]
) -> None:
    talk = bench.talk()
    await place(talk)
    assert await talk.say(LATER)
    began = [name for name, _ in talk.calls()]

    assert await cancel(talk)

    assert await talk.answers(2) == ["later"]
    assert await ends_of(talk, 2) == {1: [TurnCancelledEvent()], 2: [TurnCompletedEvent(1)]}
    assert [name for name, _ in talk.calls()] == [*began, "model"]
    await talk.history()


async def test_cancel__of_a_turn_that_has_not_begun_is_refused_and_it_runs(bench: Bench) -> None:
    talk = bench.talk()
    await at_a_model_call(talk)
    assert await talk.say(LATER)

    assert not await cancel(talk, "turn-2")
    assert await cancel(talk, "turn-1")

    assert await talk.answers(2) == ["later"]
    assert await ends_of(talk, 2) == {1: [TurnCancelledEvent()], 2: [TurnCompletedEvent(1)]}


async def test_cancels__of_one_turn_by_many_people_end_it_once(bench: Bench) -> None:
    talk = bench.talk()
    await at_a_tool(talk)

    assert all(await asyncio.gather(*(cancel(talk, "turn-1") for _ in range(8))))

    assert await ends_of(talk, 1) == {1: [TurnCancelledEvent()]}


async def test_cancel__holds_though_the_worker_dies(bench: Bench) -> None:
    talk = bench.talk()
    await at_a_tool(talk)
    assert await talk.say(LATER)

    assert await cancel(talk)
    bench.kill_worker()
    talk.gate("here").release()
    await bench.start_worker()

    assert await talk.answers(2) == ["later"]
    assert await ends_of(talk, 2) == {1: [TurnCancelledEvent()], 2: [TurnCompletedEvent(1)]}
    assert [name for name, _ in talk.calls()] == ["model", "pay", "model"]


async def test_cancel__in_a_race_with_the_end_of_its_turn_has_one_outcome(bench: Bench) -> None:
    """Many sessions, each cancelled while its model gives the final answer."""

    async def race() -> tuple[list[TERMINAL], list[str | None]]:
        talk = bench.talk()
        await talk.start(Reply(gate="here", text="an answer"))
        await talk.gate("here").wait_until_reached()
        assert await talk.say(LATER)
        talk.gate("here").release()
        await cancel(talk, "turn-1")
        ends = await ends_of(talk, 2)
        assert (ends[2], await talk.texts(2)) == ([TurnCompletedEvent(1)], ["later"])
        return ends[1], await talk.texts(1)

    for outcome in await asyncio.gather(*(race() for _ in range(16))):
        assert outcome in (
            ([TurnCancelledEvent()], []),
            ([TurnCompletedEvent(1)], ["an answer"]),
        )


async def test_cancel__behind_an_engines_death_wins_exactly_when_it_commits_first(
    bench: Bench,
) -> None:
    """The tool that the engine took with it is given up, and the last model call comes at once: the cancel meets it.

    An accepted cancel may come too late, as its turn's end tells. It never loses to a later commit.
    """
    talks = [bench.talk() for _ in range(8)]
    for talk in talks:
        await talk.start(
            Reply(calls=(Call(id="c", tool="pay", gate="here"),)), Reply(text="an answer")
        )
        await talk.gate("here").wait_until_reached()
    await bench.restart_engine()

    async def race(talk: Talk) -> tuple[bool, type[TurnEnd], tuple[str, ...]]:
        was_accepted = await cancel(talk, "turn-1")
        state = (await talk.end_of_turn()).state
        assert isinstance(state, WaitingForUserMessage)
        assert state.last_turn is not None
        commits = await _commits(bench, talk)  # of the first turn alone
        assert await talk.say(LATER)
        assert await talk.answers(2) == ["later"]
        return was_accepted, type(state.last_turn), commits

    for outcome in await asyncio.gather(*map(race, talks)):
        assert outcome in (
            (True, TurnCancelled, ("cancel",)),
            (True, TurnSucceeded, ("answer", "cancel")),
            (False, TurnSucceeded, ("answer",)),
        )


async def _commits(bench: Bench, talk: Talk) -> tuple[str, ...]:
    """What was committed of the first turn's answer and its cancel, in the engine's order."""
    server = DexServer.at(bench.shared.stack.server_address)
    commits: list[str] = []
    async for event in history_events(server, talk.session_id):
        if event.rpc_execution_completed.rpc_name == "cancel_turn":
            commits.append("cancel")
        if event.step_execute_completed.context.step_execution_id == "RunModel-2":
            commits.append("answer")
    return tuple(commits)


# --- in the model: a cancel at every transition -------------------------------------------------------

PAY, LOOK, ASK = ToolUse("a", "pay"), ToolUse("b", "look"), ToolUse("c", "ask")
ROUNDS = {
    "completes": (Asks(PAY, ASK), Asks(LOOK), Concludes("Done.")),
    "fails": (Asks(PAY), Breaks()),
    "is given up": (Asks(PAY), GivesUp()),
}
OPTIONS = AgentSessionOptions(
    tool_policies={
        "look": ToolPolicy(ToolEffect.READ),
        "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, requires_approval=False),
        "ask": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    }
)
MOST_TRANSITIONS = 100


@frozen
class Cancelled:
    """A session whose turn was cancelled after some transitions, or could not be."""

    was_accepted: bool
    rested: bool
    """Before the cancel there was nothing more to happen without people."""
    world: SimulatedWorld

    @property
    def ends(self) -> list[TERMINAL]:
        payloads = (event.payload for event in self.world.events)
        return [payload for payload in payloads if isinstance(payload, TERMINAL)]


def cancelled_after(transitions: int, runner: ScriptedRunner) -> Cancelled:
    world, rested = SimulatedWorld(runner, options=OPTIONS, first_message="go"), False
    for _ in range(transitions):
        edge = next((edge for edge in world.ahead() if not edge.action.is_fate), None)
        rested = edge is None
        if edge is not None:
            world.take(edge)
    was_accepted = world.cancel(TurnId.of(1))
    world.run()
    return Cancelled(was_accepted, rested, world)


@pytest.mark.parametrize("how", ROUNDS)
def test_cancel__after_any_number_of_transitions_ends_the_turn_with_one_event(how: str) -> None:
    for transitions in range(MOST_TRANSITIONS):
        cancelled = cancelled_after(transitions, ThoroughRunner({"go": ROUNDS[how]}))
        if cancelled.was_accepted:
            assert cancelled.ends == [TurnCancelledEvent()]
        else:
            assert TurnCancelledEvent() not in cancelled.ends
            assert len(cancelled.ends) <= 1
        if cancelled.rested:
            return
    raise AssertionError(f"the turn goes on after {MOST_TRANSITIONS} transitions")


@pytest.mark.parametrize("how", ROUNDS)
def test_cancel__with_a_queued_message_keeps_every_promise_in_every_interleaving(how: str) -> None:
    seen = explore(
        Scenario(
            name="cancelled",
            about="a turn of several rounds is cancelled while a message waits",
            is_timed=False,
            first_message="go",
            options=OPTIONS,
            runner=ScriptedRunner({"go": ROUNDS[how]}),
            acts=(Cancels(), Says("later")),
        ),
        faults=ONE_FAULT if how == "is given up" else NO_FAULTS,
    )

    assert (seen.findings, seen.is_complete) == ((), True)
