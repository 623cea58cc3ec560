"""A steering message enters the history exactly once, in the order of sending, at the next boundary after it.

The boundary is the next model call of the running turn, behind the results of its tools; when there
is none, the next turn, ahead of the queue. Wherever it falls between the last tool's end and that
model call, it is never dropped, nor told twice to a model that is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from dex_agents_model import AgentSessionOptions, AgentSnapshot, ToolEffect, ToolPolicy
from dex_agents_model.effects import CallModel
from dex_agents_model.simulation import (
    INVARIANTS,
    NO_FAULTS,
    ONE_FAULT,
    Asks,
    Breaks,
    Cancels,
    Concludes,
    Scenario,
    ScriptedRunner,
    Steers,
    ThoroughRunner,
    ToolUse,
    explore,
)
from dex_agents_model.simulation.actions import Change, Ran
from dex_agents_model.simulation.scenario import Act
from tests.binding.script import Call, Reply, script

from .bench import Bench, Talk
from .histories import loaded, timeline

FIRST, SECOND = (
    Call(id="c-1", tool="look", gate="tool 1"),
    Call(id="c-2", tool="put", gate="tool 2"),
)
GATES = ("model 1", "tool 1", "model 2", "tool 2", "model 3")
TWO_ROUNDS = (
    Reply(gate="model 1", calls=(FIRST,)),
    Reply(gate="model 2", calls=(SECOND,)),
    Reply(gate="model 3", text="an answer"),
)
HEARD = {
    "model 1": ["c-1", "be brief", "be kind", "c-2"],
    "tool 1": ["c-1", "be brief", "be kind", "c-2"],
    "model 2": ["c-1", "c-2", "be brief", "be kind"],
    "tool 2": ["c-1", "c-2", "be brief", "be kind"],
}
"""What the model is told, by where the turn stands when it is steered twice."""


async def steer(talk: Talk, text: str, message_id: str | None = None) -> None:
    assert await talk.sessions.steer_user_message(talk.session_id, text, message_id=message_id)


async def pass_gates(talk: Talk, *names: str) -> None:
    for name in names:
        await talk.gate(name).wait_until_reached()
        talk.gate(name).release()


async def told(talk: Talk, turn: int = 1) -> list[str]:
    """What the model was told in a turn, behind the message that began it, as it is stored."""
    await talk.history()
    return timeline(loaded(m for m in await talk.messages() if m.turn_id.number == turn))[1:]


@pytest.mark.parametrize("place", HEARD)
async def test_steers__are_heard_once_at_the_next_model_call_of_the_turn(
    bench: Bench, place: str
) -> None:
    talk = bench.talk()
    await talk.start(*TWO_ROUNDS)
    before, behind = GATES[: GATES.index(place)], GATES[GATES.index(place) :]
    await pass_gates(talk, *before)
    await talk.gate(place).wait_until_reached()
    for text in ("be brief", "be kind"):
        await steer(talk, text)
    await pass_gates(talk, *behind)

    await talk.end_of_turn()
    assert await told(talk) == HEARD[place]


async def test_steer__at_the_last_model_call_begins_the_next_turn_ahead_of_the_queue(
    bench: Bench,
) -> None:
    talk = bench.talk()
    await talk.start(*TWO_ROUNDS)
    await pass_gates(talk, *GATES[:-1])
    await talk.gate(GATES[-1]).wait_until_reached()
    assert await talk.say(Reply(text="queued"))
    await steer(talk, script(Reply(text="steered")))
    await pass_gates(talk, GATES[-1])

    await talk.end_of_turn(3)
    assert await told(talk) == ["c-1", "c-2"]
    assert [await talk.texts(turn) for turn in (2, 3)] == [["steered"], ["queued"]]


async def test_steer__is_told_again_to_a_model_that_is_asked_again_and_stored_once(
    bench: Bench,
) -> None:
    talk = bench.talk()
    call = Call(id="c", tool="look", gate="tool")
    await talk.start(
        Reply(calls=(call,)), Reply(crash="lost", crashes_until_attempt=2, text="an answer")
    )
    await talk.gate("tool").wait_until_reached()
    await steer(talk, "be brief")
    talk.gate("tool").release()

    assert (await talk.answers())[-1] == "an answer"
    assert await told(talk) == ["c", "be brief"]
    assert [attempt for name, attempt in talk.calls() if name == "model"] == [1, 1, 2, 3]


async def test_steer__whose_turn_dies_with_its_worker_is_heard_by_the_next_worker(
    bench: Bench,
) -> None:
    talk = bench.talk()
    await talk.start(*TWO_ROUNDS)
    await pass_gates(talk, "model 1")
    await talk.gate("tool 1").wait_until_reached()
    await steer(talk, "be brief")

    bench.kill_worker()
    for name in GATES:
        talk.gate(name).release()
    await bench.start_worker()

    await talk.end_of_turn()
    assert await told(talk) == ["c-1", "be brief", "c-2"]


async def test_steers__in_a_race_with_the_end_of_the_tools_are_each_heard_once(
    bench: Bench,
) -> None:
    """Many sessions, each steered three times, once in repetition, at the moment at which its tools end."""
    talks = [bench.talk() for _ in range(12)]
    calls = tuple(Call(id=f"c-{n}", tool="look", gate=f"tool {n}") for n in range(2))
    steers = {name: script(Reply(text=name)) for name in ("one", "two")}

    def rests(snapshot: AgentSnapshot) -> bool:
        heard = timeline(loaded(snapshot.messages))
        is_idle = snapshot.state is not None and snapshot.state.active_turn_id is None
        return is_idle and all(text in heard for text in steers.values())

    async def live(talk: Talk) -> list[str]:
        await talk.start(Reply(calls=calls), Reply(text="an answer"))
        for call in calls:
            await talk.gate(str(call.gate)).wait_until_reached()
        for call in calls:
            talk.gate(str(call.gate)).release()
        await asyncio.gather(*(steer(talk, steers[name], name) for name in ("one", "two", "one")))
        await talk.when("the end of all turns", rests)
        return timeline(await talk.history())[1:]

    for heard in await asyncio.gather(*map(live, talks)):
        assert sorted(heard) == sorted([*(call.id for call in calls), *steers.values()])


# --- in the model: a steer at every transition of a turn with two rounds of tools ---------------------

LOOK, PUT = ToolUse("a", "look"), ToolUse("b", "put")
REPLIES = {"go": (Asks(LOOK, PUT), Asks(ToolUse("c", "look")), Concludes("Done."))}
OPTIONS = AgentSessionOptions(
    tool_policies={
        "look": ToolPolicy(ToolEffect.READ),
        "put": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
    }
)


def no_model_call_hears_it_twice(change: Change) -> Iterator[str]:
    """What steers a turn is given to one of its model calls; the others find it in their run state."""
    if not isinstance(change.cause, Ran):
        return
    for effect in change.cause.attempt.ran:
        if isinstance(effect, CallModel):
            for message in effect.steering_messages:
                if message.text in (effect.run_state or ""):
                    yield f"{message.text!r} is told again"


def scenario(runner: ScriptedRunner, *acts: Act) -> Scenario:
    return Scenario(
        name="steered",
        about="a turn with two rounds of tools is steered",
        is_timed=False,
        first_message="go",
        options=OPTIONS,
        runner=runner,
        acts=acts,
    )


@pytest.mark.parametrize("runner", [ScriptedRunner, ThoroughRunner])
def test_steer__at_every_transition_of_two_rounds_with_any_fault(
    runner: type[ScriptedRunner],
) -> None:
    seen = explore(
        scenario(runner(REPLIES), Steers("steer")),
        faults=ONE_FAULT,
        invariants=(*INVARIANTS, no_model_call_hears_it_twice),
    )

    assert (seen.findings, seen.is_complete) == ((), True)


@pytest.mark.parametrize(
    "acts",
    [(Steers("one"), Steers("two")), (Steers("one"), Cancels())],
    ids=["steered twice", "steered and cancelled"],
)
@pytest.mark.parametrize("last", [Concludes("Done."), Breaks()], ids=["ends", "breaks"])
def test_steers__at_every_transition_of_two_rounds_that_end_in_any_way(
    acts: tuple[Act, ...], last: Concludes | Breaks
) -> None:
    runner = ThoroughRunner({"go": (Asks(LOOK), Asks(ToolUse("c", "look")), last)})
    seen = explore(
        scenario(runner, *acts),
        faults=NO_FAULTS,
        invariants=(*INVARIANTS, no_model_call_hears_it_twice),
    )

    assert (seen.findings, seen.is_complete) == ((), True)
