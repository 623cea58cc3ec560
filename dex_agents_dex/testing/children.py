"""Programs that a test starts, holds, and ends by whatever means. What they do is not known here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from .waiting import DEFAULT_TIMEOUT, wait_until

_SHOWN_LOG_CHARACTERS: Final = 4000
_STOPS_WITHIN: Final = timedelta(seconds=60)
"""More than the 30 seconds that a Worker which is told to end gives to what it runs."""


class ChildProgram:
    """A Python module as a program, in a process group of its own.

    Its output goes to the end of ``log_path``. Its standard input closes when this process ends, however that
    happens: it should end then.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log_path: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it: ``arguments`` are those of ``python -m``, ``env`` goes on top of this process's own."""
        self.name = name
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._log_start = log.tell()  # what an earlier child said is not its own
            self._child = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process ID, which is its group's."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet, by itself or otherwise."""
        return self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL its process group and wait; nothing happens when it has ended already."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        self._close_input()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): it keeps its connections and answers nothing."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a `pause`."""
        os.killpg(self.pid, signal.SIGCONT)

    async def stop(self, timeout: timedelta = _STOPS_WITHIN) -> None:
        """Ask it to end (SIGTERM) and wait.

        Raises:
            TimeoutError: it goes on.
            RuntimeError: it ended with an error; the message has the end of its log.
        """
        if self.is_running:
            self._child.terminate()
        await wait_until(f"the end of {self.name}", lambda: not self.is_running, timeout)
        self._close_input()
        if self._child.returncode != 0:
            raise RuntimeError(self._epitaph())

    async def wait_for_line(self, start: str, timeout: timedelta = DEFAULT_TIMEOUT) -> str:
        """The first line of its output that begins with ``start``.

        Raises:
            TimeoutError: no such line came in time.
            RuntimeError: it ended before; the message has the end of its log.
        """

        def look() -> str | None:
            is_running = self.is_running  # asked before the reading: its last words count
            for line in self._said().splitlines(keepends=True):
                if line.startswith(start) and line.endswith("\n"):
                    return line.rstrip()
            if not is_running:
                raise RuntimeError(self._epitaph())
            return None

        return await wait_until(f"{start!r} from {self.name}", look, timeout)

    def _said(self) -> str:
        return self.log_path.read_bytes()[self._log_start :].decode(errors="replace")

    def _epitaph(self) -> str:
        said = self._said()[-_SHOWN_LOG_CHARACTERS:].strip()
        return f"{self.name} ended with code {self._child.returncode}: {said}"

    def _close_input(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
