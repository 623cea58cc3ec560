"""What an earlier release stored, in the middle of whatever it was, goes on under this one as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from dex_agents_dex import AgentRuntime
from dex_agents_dex.devengine import DevEngine
from tests.binding.conversation import Conversation
from tests.binding.flows import SCRIPTED, build_flows

from .kept_sessions import path_of, put_back, releases
from .stories import STORIES, Story


@pytest.mark.parametrize(
    ("kept", "story"),
    [
        pytest.param(path_of(release, story).read_text(), story, id=f"{release}-{story.name}")
        for release in releases()
        for story in STORIES
        if path_of(release, story).exists()
    ],
)
async def test_session__that_another_release_left_goes_on(
    tmp_path: Path, kept: str, story: Story
) -> None:
    async with DevEngine(tmp_path / "data") as engine:
        await put_back(engine.address, story.name, SCRIPTED, kept)

        flows = build_flows(tmp_path)
        async with AgentRuntime(*flows, server_address=engine.address) as runtime:
            sessions = runtime.sessions(SCRIPTED)
            await story.go_on(Conversation(sessions, story.name, tmp_path))


@pytest.mark.parametrize("release", releases())
def test_release__has_kept_every_story(release: str) -> None:
    missing = [story.name for story in STORIES if not path_of(release, story).exists()]

    assert missing == []
