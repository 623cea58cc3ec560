"""What a conversation needs of the place where a person reads and types, and the one for pipes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol

from attrs import frozen
from rich.console import RenderableType

from ..words import screen


@frozen
class Typed:
    """A line, and on a terminal what the prompt was about when a person began to type it."""

    text: str
    about: str | None = None


class Screen(Protocol):
    """Whole lines, between them the agent's words as they come, and one line that is typed."""

    is_terminal: bool
    """Whether somebody types. From a pipe the next line is read only when it can be answered."""
    on_interrupt: Callable[[], None]
    """What Ctrl-C does."""

    def line(self, text: RenderableType = "") -> None:
        """Print a line of its own."""
        ...

    def flow(self, text: str) -> None:
        """Print more of what the agent says."""
        ...

    def end_flow(self) -> None:
        """What the agent says next is another thing."""
        ...

    def status(self, text: str) -> None:
        """Show quietly what the session is doing."""
        ...

    def ask(self, prompt: str, *, about: str | None = None, prefill: str = "") -> None:
        """Let the next line be typed behind ``prompt``; ``prefill`` is there already, to be edited."""
        ...

    async def read(self) -> Typed | None:
        """The next line; None when there is none any more."""
        ...

    async def written(self) -> None:
        """Wait until everything is to be seen."""
        ...


class PipeScreen:
    """Lines in, lines out: no prompt, no status, no colour."""

    is_terminal = False

    def __init__(self) -> None:
        self.on_interrupt: Callable[[], None] = lambda: None
        self._console: Final = screen()
        self._is_flowing = False
        self._lines: Final = asyncio.Queue[str | None]()
        loop = asyncio.get_running_loop()
        # A thread of its own: one of the loop's pool would be waited for at the end.
        threading.Thread(target=self._read_all, args=(loop,), daemon=True).start()

    def line(self, text: RenderableType = "") -> None:
        self.end_flow()
        self._console.print(text)

    def flow(self, text: str) -> None:
        if not self._is_flowing:
            self._console.print("● ", end="")
        self._is_flowing = True
        self._console.print(text, end="")

    def end_flow(self) -> None:
        if self._is_flowing:
            self._console.print()
        self._is_flowing = False

    def status(self, text: str) -> None:
        pass

    def ask(self, prompt: str, *, about: str | None = None, prefill: str = "") -> None:
        pass

    async def read(self) -> Typed | None:
        line = await self._lines.get()
        return None if line is None else Typed(line)

    async def written(self) -> None:
        pass

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin or ():  # None where it was closed before
            loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\n"))
        loop.call_soon_threadsafe(self._lines.put_nowait, None)
