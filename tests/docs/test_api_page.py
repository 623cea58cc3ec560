"""docs/api.md is what the docstrings say, and they say what a signature cannot."""

from __future__ import annotations

import importlib

import pytest

from .api_page import PAGE, api_page, main
from .public_api import MODULES, Public, all_public, contract_methods, names_of

EVERY = [pytest.param(each, id=f"{module}.{each.name}") for module, each in all_public()]


def test_page__is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == api_page(), "run `make docs`"


def test_check__tells_a_page_that_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = PAGE.with_name("no-such-page.md")
    monkeypatch.setattr("tests.docs.api_page.PAGE", other)

    assert main(["--check"]) == 1
    assert "+# API" in capsys.readouterr().out
    assert not other.exists()


@pytest.mark.parametrize("module", MODULES)
def test_names__are_there_to_be_imported(module: str) -> None:
    found = importlib.import_module(module)

    assert [name for name in names_of(module) if not hasattr(found, name)] == []


@pytest.mark.parametrize("each", EVERY)
def test_name__says_what_it_is(each: Public) -> None:
    silent = [
        member.name
        for member in each.members
        if member.kind != "field" and not member.doc and member.name not in contract_methods()
    ]

    assert each.doc, f"{each.name} has no docstring"
    assert silent == [], f"{each.name} has members without a docstring"


@pytest.mark.parametrize("each", EVERY)
def test_name__names_the_exceptions_that_it_raises_itself(each: Public) -> None:
    own = each.doc or ""
    unnamed = {name for name in each.raises if name not in own}
    unnamed |= {
        f"{member.name}: {name}"
        for member in each.members
        for name in member.raises
        if name not in (member.doc or "")
        and name not in own
        and member.name not in contract_methods()
    }

    assert unnamed == set()
