"""docs/testing.md: whoever types it off has a test that passes, in a project of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .pages import blocks

SETTINGS = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
pythonpath = .
"""


def test_project__typed_off_the_page_passes(tmp_path: Path) -> None:
    agent, conftest, test = blocks(
        "docs/testing.md", "python", below="## A Worker that dies in the middle of a tool"
    )
    for name, text in {
        "refund_agent.py": agent,
        "conftest.py": conftest,
        "test_refund.py": test,
        "pytest.ini": SETTINGS,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.returncode, ran.stdout.splitlines()[-1][:8]) == (0, "1 passed"), ran.stdout
