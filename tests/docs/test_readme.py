"""The README's program is the example, and it runs as a newcomer runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.py"


def test_readme__shows_the_example_as_it_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    _, _, program = QUICKSTART.read_text().partition('"""\n\n')

    assert blocks[0] == program


def test_quickstart__asks_for_the_refund_and_answers(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(QUICKSTART)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stdout.splitlines()) == (
        0,
        [
            'approving refund_order {"order_id":"a"}',
            (
                '{"find_order":"order a was delivered","refund_order":"refunded order a under key'
                ' order-session-7/turn-1/pyd_ai_tool_call_id__refund_order"}'
            ),
        ],
    ), ran.stderr


def test_demo__keeps_every_promise(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "orders.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()[-4:]] == ["kept"] * 4
