"""What a page shows as code. No claim may live here."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str, *, below: str) -> list[str]:
    """The fenced blocks in one language, from the heading ``below`` on to the next of its rank or a higher one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rank = below.split(" ", 1)[0]
    _, found, rest = text.partition(f"{below}\n")
    assert found, f"{page} has no heading {below!r}"
    section = re.split(rf"^#{{1,{len(rank)}}} ", rest, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
