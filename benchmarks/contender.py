"""A program that takes turns of workload W on command: `python -m benchmarks.contender KIND PLACE CONVERSATIONS`.

It first says `ready` and what it runs on, then answers each line that it reads: `turn N` with the
milliseconds of one turn of the Nth conversation, `all N` with the seconds of N turns of every
conversation at once. It ends at the end of its input. `racing` holds the other end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from benchmarks.conversation import Conversation, Open

READY: Final = "ready"


async def serve(open_conversations: Open, place: str, count: int) -> None:
    """Obey the lines of standard input."""
    async with open_conversations(place, count) as (settings, conversations):
        _say(f"{READY} {settings}")
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, number = line.split()
            if command == "turn":
                conversation = conversations[int(number)]
                _say(repr(1000 * await _seconds(conversation.take_turn())))
            else:
                _say(repr(await _seconds(_all(conversations, int(number)))))


async def _all(conversations: Sequence[Conversation], turns: int) -> None:
    async def take_turns(conversation: Conversation) -> None:
        for _ in range(turns):
            await conversation.take_turn()

    await asyncio.gather(*map(take_turns, conversations))


async def _seconds(work: Awaitable[None]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def _say(line: str) -> None:
    print(line, flush=True)


def _plain() -> Open:
    from benchmarks.plain import open_conversations

    return open_conversations


def _session() -> Open:
    from benchmarks.session import open_conversations

    return open_conversations


def _asked() -> Open:
    from benchmarks.session import open_asked_conversations

    return open_asked_conversations


def _window() -> Open:
    from benchmarks.session import open_conversations_with_a_window

    return open_conversations_with_a_window


def _bare() -> Open:
    from benchmarks.bare import open_conversations

    return open_conversations


def _dbos() -> Open:
    from benchmarks.dbos_turns import open_conversations

    return open_conversations


KINDS: Final[Mapping[str, Callable[[], Open]]] = {
    "plain": _plain,
    "session": _session,
    "asked": _asked,
    "window": _window,
    "bare": _bare,
    "dbos": _dbos,
}
"""Each imports only what it needs, so that its memory is its own."""

if __name__ == "__main__":
    kind, place, count = sys.argv[1:]
    asyncio.run(serve(KINDS[kind](), place, int(count)))
