"""What this machine says of itself and of its processes. Reads `/proc`, so it needs Linux."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PACKAGES: Final = (
    "dex-python-sdk",
    "pydantic-ai-slim",
    "grpcio",
    "protobuf",
    "dbos",
    "sqlalchemy",
)


def settings() -> list[str]:
    """What the figures of a run depend on, line by line."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    packages = "; ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return [
        f"{system}, {os.cpu_count()} cores, load {load} as this is printed",
        f"Python {platform.python_version()}; SQLite {sqlite3.sqlite_version}; {packages}",
    ]


def is_installed(package: str) -> bool:
    return _version(package) != "-"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def peak_memory_bytes(pid: int) -> int:
    """The most that the process ever held in memory."""
    return _status(pid, "VmHWM")


def memory_bytes(pid: int) -> int:
    """What the process holds in memory."""
    return _status(pid, "VmRSS")


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/status has no {field}")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of all threads of the processes since they began, in user and kernel mode."""
    return sum(map(_ticks, pids)) / _TICKS


def _ticks(pid: int) -> int:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def written_bytes(pids: Iterable[int]) -> int:
    """What the processes have sent to the disk since they began, whole pages as the kernel counts."""
    return sum(map(_written, pids))


def _written(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/io has no write_bytes")


def size_bytes(directory: Path) -> int:
    """Of all files below it."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
