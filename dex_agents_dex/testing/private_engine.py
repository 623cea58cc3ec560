"""A dev engine of a test's own, which may be killed and comes back on the same port and data directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .children import ChildProgram

_HOST: Final = "127.0.0.1"


class PrivateEngine:
    """Not running until `start`. ``data_dir`` may be new or hold an earlier engine's state.

    ``options`` are further ones of the engine's command line.
    """

    def __init__(self, data_dir: Path, *, log_path: Path, options: Sequence[str] = ()) -> None:
        self._data_dir = data_dir
        self._options = tuple(options)
        self._log_path = log_path
        self._port = 0
        self._child: ChildProgram | None = None

    @property
    def server_address(self) -> str:
        return f"{_HOST}:{self._port}"

    async def start(self) -> None:
        """Start it, on any free port the first time and on that same port later.

        Raises:
            RuntimeError: it did not start; the message has its own.
            TimeoutError: it did not say in time that it is ready.
        """
        child = ChildProgram(
            "the dev engine",
            [
                *("dex_agents_dex.devengine", "--until-stdin-closes"),
                *("--host", _HOST, "--port", str(self._port), "--data-dir", str(self._data_dir)),
                *self._options,
            ],
            log_path=self._log_path,
        )
        self._child = child
        if self._port:
            await child.wait_for_line(f"dev engine ready on {self.server_address}")
        else:
            ready = json.loads(await child.wait_for_line('{"address"'))
            self._port = int(ready["address"].rpartition(":")[2])

    def kill(self) -> None:
        """SIGKILL it and wait; nothing happens when it does not run."""
        if self._child is not None:
            self._child.kill()
