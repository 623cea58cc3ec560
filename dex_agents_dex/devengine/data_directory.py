"""One engine and its users on one data directory: who holds it, where it listens, and whether anybody still needs it.

Locks are the kernel's, so that a killed process holds none.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, TypedDict

STORE_FILE_NAME: Final = "engine.sqlite3"
LOG_FILE_NAME: Final = "engine.log"  # of an engine that a program started
_PRIVATE: Final = 0o700
_ENGINE_LOCK: Final = "lock"
_USERS_LOCK: Final = "users"
_ADDRESS: Final = "engine.json"
_OURS: Final = frozenset({_ADDRESS, STORE_FILE_NAME})
# There before these. Others have files of such names too, so that they say nothing beside a stranger.
_EARLIER: Final = frozenset({_ENGINE_LOCK, _USERS_LOCK, LOG_FILE_NAME})


class _Published(TypedDict):
    address: str
    pid: int
    is_listening: bool


class DataDirectory:
    """Made private to its user when it is first written to.

    A directory with files that no engine made is refused with an `OSError`: it may not be private.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def claim_for_engine(self) -> int | None:
        """The descriptor that makes this process the directory's engine until it is closed; None if there is one."""
        self._make()
        descriptor = self._lock(_ENGINE_LOCK, fcntl.LOCK_EX)
        earlier = self._published()
        if descriptor is not None and earlier is not None:
            self._publish(earlier["address"], is_listening=False)
        return descriptor

    def publish(self, address: str) -> None:
        """Tell where this directory's engine listens; it listens already."""
        self._publish(address, is_listening=True)

    def address_of_running_engine(self) -> str | None:
        """Where the directory's engine listens; None while none has said so."""
        published = self._published()
        if published is None or not published["is_listening"] or self._can_lock(_ENGINE_LOCK):
            return None
        return published["address"]

    def last_port(self) -> int:
        """The port on which an engine of this directory listened last; 0 when none ever did."""
        published = self._published()
        return 0 if published is None else int(published["address"].rpartition(":")[2])

    def use(self) -> int | None:
        """The descriptor that keeps an engine which runs only for its users; None while one of them ends."""
        self._make()
        return self._lock(_USERS_LOCK, fcntl.LOCK_SH)

    def close_to_users(self) -> int | None:
        """The descriptor that lets no program begin to use the directory; None when one uses it."""
        return self._lock(_USERS_LOCK, fcntl.LOCK_EX)

    def _publish(self, address: str, *, is_listening: bool) -> None:
        published = _Published(address=address, pid=os.getpid(), is_listening=is_listening)
        staged = self.path / f"{_ADDRESS}.new"
        staged.write_text(json.dumps(published))
        staged.replace(self.path / _ADDRESS)

    def _make(self) -> None:
        self.path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        names = {path.name for path in self.path.iterdir()}
        if names.isdisjoint(_OURS) and not names <= _EARLIER:
            raise OSError(errno.ENOTEMPTY, "it holds files that no engine made", str(self.path))
        self.path.chmod(_PRIVATE)

    def _published(self) -> _Published | None:
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            data = json.loads((self.path / _ADDRESS).read_text())
            return _Published(
                address=data["address"], pid=data["pid"], is_listening=data["is_listening"]
            )
        return None

    def _can_lock(self, name: str) -> bool:
        if not (self.path / name).exists():
            return True
        descriptor = self._lock(name, fcntl.LOCK_EX)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def _lock(self, name: str, kind: int) -> int | None:
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
