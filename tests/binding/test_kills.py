"""A process dies or a connection breaks amid several sessions: nothing is lost, and no write runs twice unseen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dex_agents_dex.session_reads import SessionReads
from dex_agents_dex.testing import Cable
from dex_agents_dex.testing.waiting import DEFAULT_TIMEOUT

from .conftest import Breakable
from .lives import LIVES
from .script import Reply


async def begin_lives(breakable: Breakable) -> list[AsyncIterator[None]]:
    """One session for each life, each at the point at which it may be struck."""
    lives = [live(breakable.conversation(), breakable.stack) for live in LIVES]
    for life in lives:
        await anext(life)
    return lives


async def end(lives: list[AsyncIterator[None]]) -> None:
    """Let each life run on to its end, which it asserts."""
    for life in lives:
        await anext(life, None)


async def test_worker__that_is_killed_leaves_each_session_to_another(breakable: Breakable) -> None:
    worker = await breakable.stack.start_worker()
    lives = await begin_lives(breakable)

    worker.kill()
    await breakable.stack.start_worker()

    await end(lives)


async def test_connection__that_is_cut_is_made_again_and_each_session_goes_on(
    breakable: Breakable,
) -> None:
    async with Cable(breakable.stack.server_address) as cable:
        await breakable.stack.start_worker(cable.address)
        lives = await begin_lives(breakable)

        cable.cut()

        await end(lives)


async def test_engine__that_is_killed_goes_on_with_each_session(breakable: Breakable) -> None:
    await breakable.stack.start_worker()
    lives = await begin_lives(breakable)

    await breakable.stack.restart_engine()

    await end(lives)


async def test_worker_and_engine__that_are_killed_leave_nothing_undone(
    breakable: Breakable,
) -> None:
    worker = await breakable.stack.start_worker()
    lives = await begin_lives(breakable)

    worker.kill()
    await breakable.stack.restart_engine()
    await breakable.stack.start_worker()

    await end(lives)


async def test_send__while_the_engine_is_away_arrives_once(
    breakable: Breakable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_machine = {"within": DEFAULT_TIMEOUT}  # its engine takes long to come back
    monkeypatch.setattr(SessionReads._ask, "__kwdefaults__", slow_machine)
    conversation = breakable.conversation()
    await breakable.stack.start_worker()
    await conversation.start(Reply(text="first"))
    await conversation.end_of_turn()

    breakable.stack.kill_engine()
    sending = asyncio.create_task(conversation.say(Reply(text="second")))
    await breakable.stack.restart_engine()

    assert await sending
    assert await conversation.answers(2) == ["second"]
    assert conversation.calls() == [("model", 1), ("model", 1)]
