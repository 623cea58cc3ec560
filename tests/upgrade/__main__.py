"""``python -m tests.upgrade RELEASE`` keeps each story's session, as this code stores it, in a folder of that name.

Run it for a release, never for a change that is to be tested: what is there already is not written again.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from dex_agents_dex import AgentRuntime
from dex_agents_dex.devengine import DevEngine
from tests.binding.conversation import Conversation
from tests.binding.flows import SCRIPTED, build_flows

from .kept_sessions import kept, path_of
from .stories import STORIES, Story

AT_ONCE = timedelta(0)


async def _session_of(story: Story, state_dir: Path) -> str:
    """The session of ``story`` at its moment."""
    flows = build_flows(state_dir)
    async with (
        DevEngine(state_dir / "data") as engine,
        AgentRuntime(*flows, server_address=engine.address, drain_timeout=AT_ONCE) as runtime,
    ):
        await story.begin(Conversation(runtime.sessions(SCRIPTED), story.name, state_dir))
        return await kept(engine.address, story.name)


def main(release: str) -> None:
    for story in STORIES:
        path = path_of(release, story)
        if path.exists():
            print(f"{path} is kept as it is")
            continue
        with tempfile.TemporaryDirectory() as directory:
            text = asyncio.run(_session_of(story, Path(directory)))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"{path} written")


if __name__ == "__main__":
    main(sys.argv[1])
