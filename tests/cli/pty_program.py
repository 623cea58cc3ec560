"""A program on a terminal of its own: what a person would type, and wait to see."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from dex_agents_dex.testing import wait_until

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][0-9A-Z]?)|[\r\x08]")
_WHERE_IS_THE_CURSOR = b"\x1b[6n"  # a terminal answers this
_COLUMNS, _LINES = "100", "40"
_ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])
"""
"""Without a controlling terminal a Ctrl-C between two prompts would be lost, not a SIGINT."""


class PtyProgram:
    """A Python module on a pseudo-terminal; SIGKILL ends it with the ``with`` block at the latest."""

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._own, theirs = pty.openpty()
        self._program = subprocess.Popen(
            [sys.executable, "-c", _ON_ITS_TERMINAL, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            start_new_session=True,
            env={
                **os.environ,
                "TERM": "xterm",
                "COLUMNS": _COLUMNS,
                "LINES": _LINES,
                **(env or {}),
            },
        )
        os.close(theirs)
        os.set_blocking(self._own, False)
        self._seen = ""
        self._looked_at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._own)

    @property
    def seen(self) -> str:
        """All that was printed, without colours and cursor movements."""
        self._read()
        return _ESCAPES.sub("", self._seen)

    async def wait_to_see(self, text: str) -> None:
        """Wait for ``text``, behind what was waited for before.

        Raises:
            TimeoutError: it did not come; the message has all that was seen.
        """

        def look() -> bool:
            return self.seen.find(text, self._looked_at) >= 0

        try:
            await wait_until(f"{text!r} on the terminal", look)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; on the terminal was:\n{self.seen}") from None
        self._looked_at = self.seen.find(text, self._looked_at) + len(text)

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        os.write(self._own, f"{line}\r".encode())

    def press(self, keys: str) -> None:
        """Press keys, like ``\\x03`` for Ctrl-C."""
        os.write(self._own, keys.encode())

    def kill(self) -> None:
        """SIGKILL, and wait; nothing when it has ended."""
        if self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait()

    async def exit_code(self) -> int:
        """Wait for its end; everything it printed is seen then."""

        def look() -> bool:
            self._read()
            return self._program.poll() is not None

        try:
            await wait_until("the end of the program", look)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; on the terminal was:\n{self.seen}") from None
        return self._program.returncode

    def _read(self) -> None:
        while True:
            try:
                read = os.read(self._own, 65536)
            except (BlockingIOError, OSError):
                return
            if not read:
                return
            self._seen += read.decode(errors="replace")
            for _ in range(read.count(_WHERE_IS_THE_CURSOR)):
                os.write(self._own, b"\x1b[1;1R")
