"""A tool or a model call ends by an exception that is no `Exception`: that is its failure, and nobody's cancel.

Its call has a final record as after any other failure, the Worker lives on, the turn ends, and the
next one works. A person's cancel that meets a tool which waits, or one which takes no notice, ends
the turn as cancelled, with a result for each call; what the tool returns then is dropped.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from dex_agents_model import OUTCOME_UNKNOWN_TOOL_RESULT
from dex_agents_model.notes import CANCELLED_MESSAGE
from dex_agents_model.records import (
    TurnCancelled,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from tests.binding.script import Call, Reply

from .agent import STUBBORN
from .bench import Bench, Talk

UNKNOWN: Final = f"failed: {OUTCOME_UNKNOWN_TOOL_RESULT}"
TOOLS: Final = ("look", "put", "pay", "poke")
WAYS: Final = {
    "cancelled": "tool look: it raised CancelledError, though nobody cancelled it",
    "group": "CancelledError",
    "exit": "tool look: it raised SystemExit: 3",
    "interrupt": "tool look: it raised KeyboardInterrupt: enough",
    "own": "tool look: it raised Enough",
}
"""What a tool or a model call raises, and what the model is told of a read that did."""


async def _goes_on(talk: Talk, turn: int) -> None:
    """The session takes a message, and a tool runs for it."""
    assert await talk.say(Reply(calls=(Call(id="next", tool="look"),)), Reply(text="here I am"))
    assert (await talk.answers(turn))[-1] == "here I am"
    assert await talk.told(turn) == {"next": "success: done"}


async def _last_turn(talk: Talk, turn: int = 1) -> object:
    state = (await talk.end_of_turn(turn)).state
    assert isinstance(state, WaitingForUserMessage)
    return state.last_turn


async def test_tool__that_raises_no_exception_fails_as_its_effect_says(bench: Bench) -> None:
    async def in_one_way(way: str) -> None:
        talk = bench.talk()
        calls = tuple(Call(id=tool, tool=tool, way=way) for tool in TOOLS)
        await talk.start(Reply(calls=calls), Reply(text="an answer"))

        assert isinstance(await _last_turn(talk), TurnSucceeded)
        told = await talk.told()
        read = told.pop("look")
        assert read.startswith("failed: The tool call failed: ")
        assert WAYS[way] in read
        assert told == dict.fromkeys(TOOLS[1:], UNKNOWN)
        assert {tool: len(talk.keys(tool)) for tool in TOOLS} == {
            "look": 3,
            "put": 3,
            "pay": 1,
            "poke": 1,
        }
        await _goes_on(talk, 2)

    worker = bench.shared.worker.pid
    await asyncio.gather(*map(in_one_way, WAYS))
    assert (bench.shared.worker.pid, bench.shared.worker.is_running) == (worker, True)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("cancelled", "CancelledError: the runner's call cancelled itself"),
        ("group", "BaseExceptionGroup: of the tool's own tasks (1 sub-exception)"),
    ],
)
async def test_model__that_raises_no_exception_fails_its_turn(
    bench: Bench, way: str, words: str
) -> None:
    talk = bench.talk()
    await talk.start(Reply(calls=(Call(id="c", tool="pay"),)), Reply(way=way))

    assert await _last_turn(talk) == TurnFailed(words)
    assert talk.keys("model") == ["turn-1/0", *["turn-1/1"] * 3]
    assert await talk.told() == {"c": "success: done"}
    await _goes_on(talk, 2)
    assert talk.keys("pay") == ["turn-1/c"]


@pytest.mark.parametrize("way", [None, STUBBORN], ids=["it waits", "it takes no notice"])
async def test_cancel__of_a_tool_that_waits_leaves_a_result_for_each_call(
    bench: Bench, way: str | None
) -> None:
    talk = bench.talk()
    calls = (
        Call(id="done", tool="pay"),
        *(Call(id=tool, tool=tool, gate=tool, way=way) for tool in TOOLS),
        Call(id="ask", tool="ask"),
    )
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await talk.questions()
    for tool in TOOLS:
        await talk.gate(tool).wait_until_reached()

    assert await talk.sessions.cancel_turn(talk.session_id)
    for tool in TOOLS:
        await talk.gate(f"{tool}, cut off").wait_until_reached()

    assert isinstance(await _last_turn(talk), TurnCancelled)
    await _goes_on(talk, 2)
    assert await talk.told() == {
        "done": "success: done",
        "look": f"failed: {CANCELLED_MESSAGE}",
        **dict.fromkeys(("put", "pay", "poke"), UNKNOWN),
        "ask": f"failed: {CANCELLED_MESSAGE}",
    }
    assert talk.keys("pay") == ["turn-1/done", "turn-1/pay"]
    assert talk.keys("ask") == []
