"""A point in a Worker's code at which a test can hold it. The two sides share a directory, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from .waiting import DEFAULT_TIMEOUT, wait_until

_AS_LONG_AS_THE_WORKER_LIVES: Final = timedelta(days=1)


class FileGate:
    """A gate that stays reached and stays open: a later attempt passes a gate that was released.

    In the Worker: `mark_reached`, then ``await wait_for_release()``. In the test:
    ``await wait_until_reached()``, then do what is to happen at that point, then `release`.
    """

    def __init__(self, state_dir: Path | str, name: str) -> None:
        self._name = name
        stem = Path(state_dir) / f"gate-{quote(name, safe='')}"
        self._reached = stem.with_name(f"{stem.name}.reached")
        self._released = stem.with_name(f"{stem.name}.released")

    def mark_reached(self) -> None:
        """The Worker has come to this point."""
        self._reached.touch()

    async def wait_for_release(self) -> None:
        """Hold until the test lets go, or the Worker dies."""
        await wait_until(
            f"the release of gate {self._name!r}",
            self._released.exists,
            _AS_LONG_AS_THE_WORKER_LIVES,
        )

    async def wait_until_reached(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        """Wait for the Worker.

        Raises:
            TimeoutError: no Worker came to this point in time.
        """
        await wait_until(f"a Worker at gate {self._name!r}", self._reached.exists, timeout)

    def release(self) -> None:
        """Let every Worker pass, now and later."""
        self._released.touch()
