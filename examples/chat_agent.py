"""An agent to talk to in a terminal, without a key or a network: `dex-agents chat chat_agent:flow` in this folder.

Its model is a script that looks for words. "count the stock" runs a slow read, "order 3 lamps" asks
before it writes; anything else is answered in a sentence.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow

SHELVES = {"lamps": 12, "chairs": 4, "desks": 0}
_A_SHELF_TAKES_SECONDS = 4.0
_A_WORD_TAKES_SECONDS = 0.05


async def stream(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """What the model says next, word by word."""
    said, returned = _latest(messages)
    text, call = _reply(said, returned)
    for word in text.split(" "):
        await asyncio.sleep(_A_WORD_TAKES_SECONDS)
        yield f"{word} "
    if call is not None:
        yield {1: call}


def _latest(messages: Sequence[ModelMessage]) -> tuple[list[str], list[str]]:
    """What the user has said and tools have returned since the model's last word to the user."""
    said: list[str] = []
    returned: list[str] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        prompts = [str(part.content) for part in message.parts if isinstance(part, UserPromptPart)]
        results = [
            str(part.content).splitlines()[-1]
            for part in message.parts
            if isinstance(part, ToolReturnPart) and "turn was cancelled" not in str(part.content)
        ]
        if not results:
            said, returned = [], []
        said += prompts
        returned += results
    return said, returned


def _reply(said: list[str], returned: list[str]) -> tuple[str, DeltaToolCall | None]:
    if returned and len(said) > 1:
        return f"{returned[-1]} And to what you said meanwhile: {said[-1]!r}, noted.", None
    if returned:
        return f"{returned[-1]} Anything else?", None
    text = said[-1] if said else ""
    order = re.search(r"order (\d+) (\w+)", text)
    if order is not None:
        arguments = f'{{"item": "{order[2]}", "count": {order[1]}}}'
        return "I can order those, if you agree.", _call("order_items", arguments)
    if "stock" in text:
        return "Let me walk along the shelves.", _call("count_stock", "{}")
    return "I keep a small warehouse: ask me to count the stock, or to order 3 lamps.", None


def _call(tool: str, arguments: str) -> DeltaToolCall:
    return DeltaToolCall(name=tool, json_args=arguments, tool_call_id="call-1")


agent = Agent(FunctionModel(stream_function=stream), instructions="You keep a small warehouse.")


@agent.tool_plain
async def count_stock() -> str:
    """Count what is on each shelf. It takes a while."""
    for _ in SHELVES:
        await asyncio.sleep(_A_SHELF_TAKES_SECONDS)
    return "There are " + ", ".join(f"{count} {item}" for item, count in SHELVES.items()) + "."


@agent.tool_plain
def order_items(item: str, count: int) -> str:
    """Order more of an item from the supplier."""
    return f"Ordered {count} {item}."


flow = pydantic_ai_session_flow(
    agent,
    flow_type="Warehouse",
    tool_policies={
        "count_stock": ToolPolicy(ToolEffect.READ),
        "order_items": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    },
)
