"""What the stories share: tool calls, what is held, and a model that asks for tools and concludes."""

from __future__ import annotations

from typing import Final

from dex_agents_model.simulation import Asks, Concludes, ScriptedRunner, ToolUse

from ..story import options

PLAIN: Final = options()
LOOK: Final = ToolUse("look", "look", '{"order": 7}')
PUT: Final = ToolUse("put", "put", '{"order": 7}')
PAY: Final = ToolUse("pay", "pay", '{"euros": 12}')
POKE: Final = ToolUse("poke", "poke", '{"who": "Ada"}')
RESERVE: Final = ToolUse("reserve", "reserve", '{"seat": 3}')
REFUND: Final = ToolUse("refund", "refund", '{"order": 7}')
EACH_EFFECT: Final = (LOOK, PUT, PAY, POKE)
ALL_HELD: Final = frozenset(f"turn-1/{use.tool_call_id}" for use in EACH_EFFECT)
HELD_MODEL: Final = frozenset({"turn-1"})


def asking(*uses: ToolUse) -> ScriptedRunner:
    """The model asks for ``uses`` and concludes."""
    return ScriptedRunner({"go": (Asks(*uses), Concludes("Done so."))})
