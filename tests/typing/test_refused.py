"""mypy finds every fault that is planted in the folder ``refused``, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = tuple(
    path
    for path in sorted((Path(__file__).parent / "refused").glob("*.py"))
    if path.name != "__init__.py"
)

_MARK = re.compile(r"# refused: (?P<codes>[\w, -]+)$")
_ERROR = re.compile(r"(?P<path>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")

Fault = tuple[int, str]


@pytest.fixture(scope="module")
def found() -> dict[Path, list[Fault]]:
    """The faults of each file, from one run over them all; it shares the cache of ``make types``."""
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary", *map(str, REFUSED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    faults: dict[Path, list[Fault]] = {}
    for error in map(_ERROR.match, run.stdout.splitlines()):
        if error is not None:
            of_file = faults.setdefault((ROOT / error["path"]).resolve(), [])
            fault = (int(error["line"]), error["code"])
            # mypy repeats a fault for each member of a union that has it.
            if fault not in of_file:
                of_file.append(fault)
    assert run.returncode == 1, run.stdout + run.stderr
    assert faults.keys() <= set(REFUSED), run.stdout
    return faults


def planted(path: Path) -> list[Fault]:
    return [
        (number, code.strip())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := _MARK.search(line))
        for code in mark["codes"].split(",")
    ]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_types__refuse(path: Path, found: dict[Path, list[Fault]]) -> None:
    assert planted(path) != []
    assert found.get(path, []) == planted(path)
