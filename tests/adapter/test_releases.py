"""The releases of Pydantic AI that the package allows are those that it is tested on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_oldest_release__is_the_lowest_that_the_package_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [allowed] = [
        required
        for required in project["optional-dependencies"]["pydantic-ai"]
        if required.startswith("pydantic-ai-slim")
    ]
    locked = (ROOT / "requirements" / "oldest.txt").read_text("utf-8")

    versions = re.findall(r"^pydantic-(?:ai-slim|graph)==(\S+)", locked, re.MULTILINE)
    assert len(versions) == 2
    assert {f"pydantic-ai-slim>={version.removesuffix('.0')},<3" for version in versions} == {
        allowed
    }
