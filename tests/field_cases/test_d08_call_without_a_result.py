"""A process dies anywhere in a turn with two tools: every call in every history has one result, right behind it.

The turn goes on to its answer, or ends as failed or cancelled, and the session takes the next
message. So it is after a second death in the next turn. The model of these tests refuses a history
with an unanswered call, as providers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from dex_agents_model import AgentSessionOptions
from dex_agents_model.records import (
    TurnCancelled,
    TurnEnd,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.simulation import (
    Asks,
    Breaks,
    Concludes,
    Says,
    Scenario,
    ScriptedRunner,
    ThoroughRunner,
    ToolUse,
    explore,
)
from tests.binding.flows import POLICIES
from tests.binding.script import Call, Reply

from .bench import Bench, Talk


def _turn(first: Call, second: Call, last: Reply | None = None) -> tuple[Reply, ...]:
    return (Reply(calls=(first, second)), last or Reply(text="an answer"))


LOOK, PAY = Call(id="1", tool="look"), Call(id="2", tool="pay")
CANCELLED: Final = "in a turn that is cancelled then"
FAILED: Final = "in a turn that fails"
ASKED: Final = "while a person is asked"
POINTS: Final[dict[str, Callable[[str], tuple[Reply, ...]]]] = {
    "in the first model call": lambda gate: (
        Reply(gate=gate, calls=(LOOK, PAY)),
        Reply(text="an answer"),
    ),
    "before the tools": lambda gate: _turn(
        Call(id="1", tool="look", early_gate=gate), Call(id="2", tool="pay", early_gate=gate)
    ),
    "in the tools": lambda gate: _turn(
        Call(id="1", tool="put", gate=gate), Call(id="2", tool="pay", gate=gate)
    ),
    "behind the tools": lambda gate: _turn(
        Call(id="1", tool="put", late_gate=gate), Call(id="2", tool="poke", late_gate=gate)
    ),
    "between the tools": lambda gate: _turn(LOOK, Call(id="2", tool="poke", gate=gate)),
    "in the second round": lambda gate: (
        Reply(calls=(LOOK,)),
        Reply(calls=(Call(id="2", tool="pay", gate=gate),)),
        Reply(text="an answer"),
    ),
    "in the last model call": lambda gate: _turn(LOOK, PAY, Reply(gate=gate, text="an answer")),
    FAILED: lambda gate: _turn(
        LOOK, Call(id="2", tool="pay", gate=gate), Reply(crash="no model today")
    ),
    # Its last model call is held for ever: the cancel shall not race with the turn's own end.
    CANCELLED: lambda gate: _turn(
        LOOK, Call(id="2", tool="pay", gate=gate), Reply(gate=f"{gate}, for ever")
    ),
    ASKED: lambda gate: _turn(
        Call(id="1", tool="put", gate=gate), Call(id="2", tool="ask", late_gate=gate)
    ),
}
"""Where a process dies: what the model says in a turn that is held there at ``gate``."""

ENDS: Final[dict[str, type[TurnEnd]]] = {
    **dict.fromkeys(POINTS, TurnSucceeded),
    FAILED: TurnFailed,
    CANCELLED: TurnCancelled,
}


async def _go_to(talk: Talk, point: str, turn: int) -> None:
    """Begin a turn, and go on until it is held."""
    gate = f"gate of turn {turn}"
    replies = POINTS[point](gate)
    await (talk.start(*replies) if turn == 1 else talk.say(*replies))
    await talk.gate(gate).wait_until_reached()
    if point == ASKED:
        await talk.questions()


async def _end(talk: Talk, point: str, turn: int) -> None:
    """Bring a turn to its end, now that a process has died and another has come."""
    if point == ASKED:
        (question,) = await talk.questions()
        assert await talk.answer(question, approved=True)
    if point == CANCELLED:
        assert await talk.sessions.cancel_turn(talk.session_id, f"turn-{turn}")
    talk.gate(f"gate of turn {turn}").release()
    snapshot = await talk.end_of_turn(turn)

    assert isinstance(snapshot.state, WaitingForUserMessage)
    assert isinstance(snapshot.state.last_turn, ENDS[point])
    # `told` holds that each call has exactly one result, right behind it.
    assert list(await talk.told(turn)) == ["1", "2"]


async def test_history__is_valid_wherever_a_process_dies_and_the_session_goes_on(
    bench: Bench,
) -> None:
    talks = {point: bench.talk() for point in POINTS}

    await asyncio.gather(*(_go_to(talk, point, 1) for point, talk in talks.items()))
    bench.kill_worker()
    await bench.start_worker()
    await asyncio.gather(*(_end(talk, point, 1) for point, talk in talks.items()))

    await asyncio.gather(*(_go_to(talk, point, 2) for point, talk in talks.items()))
    await bench.restart_engine()
    await asyncio.gather(*(_end(talk, point, 2) for point, talk in talks.items()))

    for talk in talks.values():
        assert await talk.say(Reply(text="still here"))
    for talk in talks.values():
        assert await talk.answers(3) == ["still here"]
        await talk.history()


@pytest.mark.parametrize("runner", [ScriptedRunner, ThoroughRunner])
@pytest.mark.parametrize("ending", [Concludes("Gone."), Breaks()])
def test_explore__each_stored_call_has_its_result_wherever_a_worker_dies(
    runner: type[ScriptedRunner], ending: Concludes | Breaks
) -> None:
    """Two rounds of tools that end well or badly, with runners that keep a failed turn's items and that do not."""
    seen = explore(
        Scenario(
            name="two tools",
            about="one tool after the other, an end, and another message",
            first_message="go",
            is_timed=False,
            options=AgentSessionOptions(tool_policies=POLICIES),
            runner=runner({"go": (Asks(ToolUse("1", "put")), Asks(ToolUse("2", "pay")), ending)}),
            acts=(Says("more"),),
        )
    )

    assert (seen.findings, seen.is_complete) == ((), True)
