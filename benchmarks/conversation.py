"""What takes turns in a benchmark: a conversation, whatever keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias


class Conversation(Protocol):
    """One conversation, which goes on turn after turn."""

    async def take_turn(self) -> None:
        """Send the prompt of W, and return when its answer is there."""
        ...


Opened: TypeAlias = tuple[str, Sequence[Conversation]]
"""What they run on, in words, and the conversations."""
Open: TypeAlias = Callable[[str, int], AbstractAsyncContextManager[Opened]]
"""Takes a directory of its own, or the address of an engine, and how many conversations to begin."""
