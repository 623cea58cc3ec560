"""Tries every mutant of the rules on the tests of the rules and of the table, and prints those that survive."""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType, ModuleType
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

import dex_agents_model.rules
from tests.mutation.mutants import mutants
from tests.rules.cases import Case, all_cases

LIMIT_SECONDS: Final = 60
TESTS: Final = ("tests/rules", "tests/table/test_react.py", "tests/table/test_totality.py")
ROOT: Final = Path(__file__).parents[2]


class Trial:
    """A pytest plugin: the tests are collected once, and run in one forked process for each mutant."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self.survivors = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        cases, total = tuple(all_cases()), 0
        for name in self._names:
            module = import_module(f"{dex_agents_model.rules.__name__}.{name}")
            source = Path(module.__file__ or "").read_text(encoding="utf-8")
            if _is_killed(module, ast.unparse(ast.parse(source)), cases, session.items):
                raise pytest.UsageError(f"the tests fail on {name} as it is")
            for mutant in mutants(source):
                total += 1
                if not _is_killed(module, mutant.source, cases, session.items):
                    self.survivors += 1
                    print(f"{name}.py:{mutant.line}: {mutant.change}", flush=True)
        killed = total - self.survivors
        print(f"{total} mutants, {killed} killed: {killed / max(total, 1):.1%}")
        return True


def _is_killed(
    module: ModuleType, source: str, cases: tuple[Case, ...], items: list[pytest.Item]
) -> bool:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    signal.alarm(LIMIT_SECONDS)
    survives = False
    try:
        _put(module, source)
        survives = all(case.result() == case.then for case in cases) and _pass(items)
    finally:
        # Nothing of the parent's may run twice: no exit handler, no flush.
        os._exit(0 if survives else 1)


def _pass(items: list[pytest.Item]) -> bool:
    """Whether every test passes; the first that does not is the last."""
    return all(
        not report.failed
        for item, later in zip(items, [*items[1:], None], strict=True)
        for report in runtestprotocol(item, log=False, nextitem=later)
    )


def _put(module: ModuleType, source: str) -> None:
    """Let the functions and constants of ``module`` be those of ``source``, wherever they are known."""
    changed = ModuleType(module.__name__)
    changed.__package__ = module.__package__
    exec(compile(source, module.__name__, "exec"), changed.__dict__)
    for name, new in vars(changed).items():
        old = vars(module).get(name)
        if isinstance(new, FunctionType) and isinstance(old, FunctionType):
            if new.__module__ == module.__name__:
                old.__code__, old.__defaults__ = new.__code__, new.__defaults__
                old.__kwdefaults__ = new.__kwdefaults__
        elif new != old and not name.startswith("__"):
            for other in tuple(sys.modules.values()):
                if other.__name__.startswith("dex_agents_model") and vars(other).get(name) is old:
                    setattr(other, name, new)


def main() -> int:
    names = sys.argv[1:] or [found.name for found in iter_modules(dex_agents_model.rules.__path__)]
    trial = Trial(names)
    os.chdir(ROOT)
    quiet = ("-q", "-s", "-p", "no:cacheprovider", "--hypothesis-seed=0")
    return int(pytest.main([*quiet, *TESTS], plugins=[trial]))


if __name__ == "__main__":
    sys.exit(main())
