"""Draws docs/api.md from the source: ``python -m tests.docs.api_page [--check]``. What it says, docstrings say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Final

from .pages import ROOT
from .public_api import MODULES, Member, Public, all_public, contract_methods

PAGE: Final[Path] = ROOT / "docs" / "api.md"

_OPENING: Final = """\
# API

Every public name of the packages. This page is generated from their docstrings: change those, then run `make docs`.

Durations are `timedelta`, instants are aware UTC `datetime`; a bare number carries its unit last in its
name (`capacity_bytes`). Records are immutable, with tuples inside. A name is imported from the module under which
it stands here: `from dex_agents_dex import AgentRuntime`."""


def api_page() -> str:
    """The whole page."""
    parts = [_OPENING, "\n".join(_contents())]
    last = ""
    for module, each in all_public():
        if module != last:
            parts.append(f"## {MODULES[module]}\n\n`{module}`")
            last = module
        parts.append(_entry(each))
    return "\n\n".join(parts) + "\n"


def _contents() -> Iterator[str]:
    yield "| Module | What it has |"
    yield "|---|---|"
    for module, title in MODULES.items():
        yield f"| `{module}` | [{title}](#{_anchor(title)}) |"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _entry(each: Public) -> str:
    lines = [f"### {each.name}", f"```python\n{_headline(each)}\n```", *_text(each.doc)]
    fields = [member for member in each.members if member.kind == "field"]
    if fields and each.is_by_keyword:
        lines.append("It is made with keywords:")
    if fields:
        lines.append("\n".join(map(_field, fields)))
    lines += [_method(member) for member in each.members if member.kind != "field"]
    return "\n\n".join(lines)


def _headline(each: Public) -> str:
    if not each.bases:
        return each.signature
    start, _, rest = each.signature.partition("(")
    arguments = f"  # ({rest}" if rest else ""
    return f"{start}({', '.join(each.bases)}){arguments}"


def _field(member: Member) -> str:
    said = " ".join(_plain(member.doc).split()) if member.doc else ""
    return f"- `{member.signature}`" + (f": {said}" if said else "")


def _method(member: Member) -> str:
    mark = f"```python\n{member.signature}\n```"
    if member.doc is None and member.name in contract_methods():
        return f"{mark}\n\nAs its contract says."
    return "\n\n".join((mark, *_text(member.doc)))


def _text(doc: str | None) -> Iterator[str]:
    """Paragraphs; what is raised becomes a list."""
    if doc is None:
        return
    said, _, raised = doc.partition("\nRaises:\n")
    if doc.startswith("Raises:\n"):
        said, raised = "", doc.removeprefix("Raises:\n")
    if said.strip():
        yield _plain(said.strip())
    if raised:
        entries = re.split(r"\n(?=    \S)", raised.rstrip())
        yield "Raises:\n\n" + "\n".join(f"- {_raised(entry)}" for entry in entries)


def _raised(entry: str) -> str:
    name, _, when = " ".join(_plain(entry).split()).partition(": ")
    return f"`{name}`: {when}"


def _plain(text: str) -> str:
    return text.replace("``", "`")


def main(arguments: list[str]) -> int:
    """Write the page, or say how it differs."""
    wanted = api_page()
    if "--check" not in arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    found = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    difference = unified_diff(
        found.splitlines(), wanted.splitlines(), str(PAGE), "the docstrings", lineterm=""
    )
    for line in difference:
        sys.stdout.write(f"{line}\n")
    return 0 if found == wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
