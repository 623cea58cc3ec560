"""The generated page is current, and `python -m dex_agents_model.docs` says when it is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dex_agents_model.docs import DEFAULT_PATH, main, transitions
from dex_agents_model.spec import row_name
from dex_agents_model.table import RPCS, SPECS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "sources.md"


def test_transitions__are_drawn_from_the_table_as_it_is() -> None:
    stored = (ROOT / DEFAULT_PATH).read_text(encoding="utf-8")

    assert stored == transitions(), f"{DEFAULT_PATH} differs from the table; run `make docs`"


def test_transitions__have_a_section_for_each_step_and_a_row_for_each_rule() -> None:
    page = transitions()
    rows = [row_name(entry.step, row.on) for entry in SPECS for row in entry.rows]
    rows += [entry.request.__name__ for entry in RPCS]
    rules = {row.rule.__name__ for entry in SPECS for row in entry.rows}
    rules |= {entry.rule.__name__ for entry in RPCS}

    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == [e.step.__name__ for e in SPECS]
    assert re.findall(r'^\| <a id="([\w.]+)"></a>`\1` \|', page, re.MULTILINE) == rows
    assert [name for name in sorted(rules) if f"| `{name}`: " not in page] == []


def test_main__writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"

    main([str(page)])

    assert page.read_text(encoding="utf-8") == transitions()


def test_main__accepts_a_page_that_is_current(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(transitions(), encoding="utf-8")

    main(["--check", str(page)])


@pytest.mark.parametrize("stale", [None, "# Transitions\n"], ids=["missing", "old"])
def test_main__refuses_a_stale_page_and_leaves_it(
    stale: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if stale is not None:
        page.write_text(stale, encoding="utf-8")

    with pytest.raises(SystemExit) as refused:
        main(["--check", str(page)])

    first_line = capsys.readouterr().err.splitlines()[0]
    left = page.read_text(encoding="utf-8") if page.exists() else None
    assert refused.value.code == 1
    assert first_line == f"{page} differs from the table; run `make docs`"
    assert left == stale


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_sources__name_every_key_that_a_docstring_uses() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", SOURCES.read_text(encoding="utf-8"), re.MULTILINE))
    used = {
        key
        for path in ROOT.glob("dex_agents_*/**/*.py")
        for text in docstrings(path)
        for key in re.findall(r"\[([a-z]+): [^\]]+\]", text)
    }

    assert used - listed == set()
