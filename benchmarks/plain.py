"""Plain Pydantic AI: a conversation in the memory of one process, streamed as a session streams it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage

from benchmarks.conversation import Opened
from benchmarks.workload import PROMPT, build_agent


class PlainConversation:
    """A conversation as Pydantic AI has it by itself: its history is a list."""

    def __init__(self, agent: Agent[None, str]) -> None:
        self._agent = agent
        self.history: list[ModelMessage] = []

    async def take_turn(self) -> None:
        async with self._agent.run_stream(PROMPT, message_history=self.history) as run:
            await run.get_output()
        self.history += run.new_messages()


@asynccontextmanager
async def open_conversations(place: str, count: int) -> AsyncIterator[Opened]:
    agent = build_agent()
    yield "one process, nothing stored", [PlainConversation(agent) for _ in range(count)]
