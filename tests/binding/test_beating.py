"""A Step beats as long as its effect is performed, and no longer."""

from __future__ import annotations

from datetime import timedelta

from dex_agents_dex.beating import beating
from dex_agents_dex.testing import wait_until

OFTEN = timedelta(milliseconds=1)


class Heart:
    def __init__(self) -> None:
        self.beats = 0

    async def beat(self) -> None:
        self.beats += 1

    async def has_beaten(self) -> None:
        await wait_until("three beats", lambda: self.beats >= 3)


async def while_another_beats() -> None:
    another = Heart()
    with beating(another.beat, OFTEN):
        await another.has_beaten()


async def test_beating__goes_on_until_the_effect_is_done() -> None:
    heart = Heart()
    with beating(heart.beat, OFTEN):
        assert heart.beats == 0
        await heart.has_beaten()

    before = heart.beats
    await while_another_beats()

    assert heart.beats == before


async def test_beating__never_begins_for_an_effect_that_ends_before() -> None:
    heart = Heart()
    with beating(heart.beat, OFTEN):
        pass

    await while_another_beats()

    assert heart.beats == 0
