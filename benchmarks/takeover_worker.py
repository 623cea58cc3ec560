"""The Worker of the takeover benchmark: says when a model call or a tool begins, and holds it there when told to.

The directory TAKEOVER_DIR is all that it shares with `takeover`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from attrs import frozen
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCalls, FunctionModel

from benchmarks.workload import TOOLS, do_nothing, flow_of, stream_reply
from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.testing import run_agent_worker

DIRECTORY: Final = "TAKEOVER_DIR"
MODEL: Final = "model"
TOOL: Final = TOOLS[0]
_LOOK_EVERY_SECONDS: Final = 0.002


@frozen
class Started:
    """A model call or a tool has begun, at an instant of the machine's monotonic clock."""

    what: str
    pid: int
    at_seconds: float


class Points:
    """Where Workers may be held, and what they said."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "started"
        self._holds = {what: directory / f"hold-{what}" for what in (MODEL, TOOL)}

    def hold(self, what: str) -> None:
        """The next one of these that begins waits for `release`."""
        self._holds[what].touch()

    def release(self, what: str) -> None:
        self._holds[what].unlink()

    def started(self) -> list[Started]:
        """All that began, in order."""
        if not self._log.exists():
            return []
        lines = (line.split() for line in self._log.read_text().splitlines())
        return [Started(what, int(pid), float(at)) for what, pid, at in lines]

    async def pass_by(self, what: str) -> None:
        """Called by the Worker as it begins."""
        line = f"{what} {os.getpid()} {time.monotonic()!r}\n"
        with self._log.open("a") as log:
            log.write(line)
        while self._holds[what].exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(_LOOK_EVERY_SECONDS)


def build_held_flow(points: Points) -> AgentSessionFlow:
    """The session of W, with points at which it can be held."""

    async def reply(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        await points.pass_by(MODEL)
        async for part in stream_reply(messages, info):
            yield part

    async def first() -> str:
        await points.pass_by(TOOL)
        return await do_nothing()

    agent = Agent(FunctionModel(stream_function=reply))
    for name in TOOLS:
        agent.tool_plain(name=name)(first if name == TOOL else do_nothing)
    return flow_of(agent)


if __name__ == "__main__":
    run_agent_worker([build_held_flow(Points(Path(os.environ[DIRECTORY])))])
