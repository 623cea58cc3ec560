"""A tool that asks the model to try again, refuses, or wants an approval has spoken its last word.

It ran once, in one attempt of its Step, whatever its effect; its word is its result, which the
model reads. No engine retry ever runs its work again for it.
"""

from __future__ import annotations

import pytest

from tests.binding.script import Call, Reply

from .bench import Bench

TOOLS = ("look", "put", "pay", "poke")
"""One for each effect; none of them asks a person."""

WORDS = {
    "retry": "failed: The tool call failed: another word, please",
    "approval": (
        "failed: The tool call failed: The tool {tool} asked for approval while it ran."
        " It needs a ToolPolicy with requires_approval=True."
    ),
}


@pytest.mark.parametrize("way", WORDS)
async def test_tool__that_speaks_by_an_exception_runs_once(bench: Bench, way: str) -> None:
    talk = bench.talk()
    calls = tuple(Call(id=f"c-{tool}", tool=tool, way=way) for tool in TOOLS)
    await talk.start(Reply(calls=calls), Reply(text="an answer"))
    await talk.end_of_turn()

    assert sorted(talk.calls()) == [("look", 1), ("model", 1), ("model", 1)] + [
        (tool, 1) for tool in ("pay", "poke", "put")
    ]
    assert await talk.told() == {f"c-{tool}": WORDS[way].format(tool=tool) for tool in TOOLS}
    assert {entry.final_attempt for entry in await bench.steps(talk)} == {1}
