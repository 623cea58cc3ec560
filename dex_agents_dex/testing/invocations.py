"""What really ran, over all Worker processes and all their deaths: the witness against a tool that ran twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import asdict, frozen


@frozen
class Invocation:
    """One real call that began. ``key`` is the caller's: an idempotency key, or a name of its own."""

    name: str
    key: str
    pid: int
    attempt: int


class InvocationLog:
    """A file to which any number of processes append; one line is one call."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def record(self, name: str, *, key: str = "", attempt: int = 1) -> None:
        """Append one call of this process, before its work begins."""
        call = Invocation(name, key, os.getpid(), attempt)
        line = json.dumps(asdict(call)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)  # one write with O_APPEND: lines of two processes never mix
        finally:
            os.close(descriptor)

    def read(self, *, name: str | None = None, key: str | None = None) -> tuple[Invocation, ...]:
        """The calls so far, in the order in which they began; all, or those of a name or a key."""
        if not self._path.exists():
            return ()
        calls = (Invocation(**json.loads(line)) for line in self._path.read_text().splitlines())
        return tuple(
            call for call in calls if name in (None, call.name) and key in (None, call.key)
        )
