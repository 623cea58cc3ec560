"""Rules about the files themselves, which no linter knows. No rule about behaviour may live here.

A rule takes the text of one file and yields the faults it finds, each as a line number and a
sentence. Every rule is also shown a planted fault, so that none can fall silent.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest
from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dex_agents_model", "dex_agents_dex", "dex_agents_pydantic_ai")
MODULE_LINES_MAX = 320
FUNCTION_LINES_MAX = 60

Fault = tuple[int, str]
Rule = Callable[[str], Iterator[Fault]]

# The character classes keep these patterns from matching their own source.
_UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b")
_MACHINE_PATH = re.compile(r"(?<![\w.~/-])(/(?:work|root|home|opt|Users)/|[A-Z]:\\Users)")
_REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|crates\.io"
    r"|--?(?:extra-)?index-ur[l]|--find-link[s]|--trusted-hos[t]"
)
_SILENCED = re.compile(r"#\s*(?:(?:type|pyright):\s*ignore|(?:ruff:\s*)?noqa)\b(?P<rest>.*)")
_CODES_THEN_REASON = re.compile(
    r"(?:\[[\w, -]+\]|:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)\s*[#-]\s*\w+ \w+.*"
)


def opens_with_a_docstring(text: str) -> Iterator[Fault]:
    """The first statement of a module says what the module is for."""
    if ast.get_docstring(ast.parse(text)) is None:
        yield 1, "the module has no docstring"


def is_short(text: str) -> Iterator[Fault]:
    """A module that outgrows the cap holds more than one topic."""
    lines = len(text.splitlines())
    if lines > MODULE_LINES_MAX:
        yield lines, f"the module has {lines} lines, {MODULE_LINES_MAX} are allowed"


def has_short_functions(text: str) -> Iterator[Fault]:
    """A function is measured from its ``def`` to its last line, docstring included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield (
                    node.lineno,
                    f"{node.name} has {lines} lines, {FUNCTION_LINES_MAX} are allowed",
                )


def does_not_print(text: str) -> Iterator[Fault]:
    """A library speaks through values, exceptions and logging."""
    yield from _calls_of("print", text)


def does_not_sleep(text: str) -> Iterator[Fault]:
    """A test waits for a condition; a pause is either too short or too long."""
    yield from _calls_of("sleep", text)


def silences_with_a_reason(text: str) -> Iterator[Fault]:
    """A silenced checker is named by its code, and a reason follows a second ``#`` or a dash."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        silenced = _SILENCED.match(token.string)
        if silenced and not _CODES_THEN_REASON.fullmatch(silenced["rest"]):
            yield token.start[0], "a checker is silenced without its code or without a reason"


def is_finished(text: str) -> Iterator[Fault]:
    """Work that is left belongs in an issue."""
    yield from _matches(_UNFINISHED, text)


def names_no_machine(text: str) -> Iterator[Fault]:
    """A path of one machine means nothing on another."""
    yield from _matches(_MACHINE_PATH, text)


def names_no_registry(text: str) -> Iterator[Fault]:
    """Where packages come from is for the machine that installs to say."""
    yield from _matches(_REGISTRY, text)


def _calls_of(name: str, text: str) -> Iterator[Fault]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func
            if (isinstance(called, ast.Name) and called.id == name) or (
                isinstance(called, ast.Attribute) and called.attr == name
            ):
                yield node.lineno, f"calls {name}"


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Fault]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := pattern.search(line):
            yield number, f"holds {found.group()!r}"


def _is_python(path: PurePosixPath) -> bool:
    return path.suffix == ".py"


def _is_of_a_package(path: PurePosixPath) -> bool:
    return _is_python(path) and path.parts[0] in PACKAGES


def _is_mute(path: PurePosixPath) -> bool:
    speaks = path.name == "__main__.py" or "cli" in path.parts or path.name == "cli.py"
    return _is_of_a_package(path) and not speaks


def _is_a_test(path: PurePosixPath) -> bool:
    return _is_python(path) and path.parts[0] == "tests"


def _is_text(_: PurePosixPath) -> bool:
    return True


@frozen
class Tidiness:
    """A rule, the files it is about, and a text that breaks it."""

    rule: Rule
    applies_to: Callable[[PurePosixPath], bool]
    planted_fault: str = field(repr=False)


TIDINESS = (
    Tidiness(opens_with_a_docstring, _is_python, "import ast\n"),
    Tidiness(is_short, _is_of_a_package, "\n" * (MODULE_LINES_MAX + 1)),
    Tidiness(has_short_functions, _is_python, "def f():\n" + "    1\n" * FUNCTION_LINES_MAX),
    Tidiness(does_not_print, _is_mute, "print(1)\n"),
    Tidiness(does_not_sleep, _is_a_test, "async def f():\n    await asyncio.sleep(0)\n"),
    Tidiness(silences_with_a_reason, _is_python, "x = 1  # noqa: E501\n"),
    Tidiness(silences_with_a_reason, _is_python, "x = 1  # type: ignore\n"),
    Tidiness(silences_with_a_reason, _is_python, "x = 1  # type: ignore[misc]\n"),
    Tidiness(is_finished, _is_text, "# FIX" + "ME later\n"),
    Tidiness(names_no_machine, _is_text, "data = '/ho" + "me/me/data'\n"),
    Tidiness(names_no_registry, _is_text, "pip install --index" + "-url x\n"),
)
RULES = tuple({each.rule: each for each in TIDINESS}.values())


def _names(each: Tidiness) -> str:
    return each.rule.__name__


def _files() -> list[PurePosixPath]:
    """What Git has or would take; without a checkout, whatever lies in no hidden folder."""
    asked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        names = asked.stdout.splitlines()
    else:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
    found = [PurePosixPath(name) for name in sorted(set(names))]
    return [path for path in found if (ROOT / path).is_file() and not _is_left_by_a_tool(path)]


def _is_left_by_a_tool(path: PurePosixPath) -> bool:
    hidden = any(part.startswith(".") and part != ".ci" for part in path.parts[:-1])
    return hidden or "__pycache__" in path.parts


def _text(path: PurePosixPath) -> str | None:
    """The text of a file, or None for one that is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("each", RULES, ids=_names)
def test_tidy__every_file_keeps_the_rule(each: Tidiness) -> None:
    faults = [
        f"{path}:{line}: {fault}"
        for path in _files()
        if each.applies_to(path) and (text := _text(path)) is not None
        for line, fault in each.rule(text)
    ]

    assert faults == []


@pytest.mark.parametrize("each", TIDINESS, ids=_names)
def test_tidy__each_rule_finds_a_planted_fault(each: Tidiness) -> None:
    assert len(list(each.rule(each.planted_fault))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: E501  # the URL cannot be broken\n",
        "x = 1  # noqa: E501, B008 - the table is easier to read in columns\n",
        "x = 1  # type: ignore[misc, arg-type]  # the stub lacks the overload\n",
        "x = 'a comment that talks of # noqa is no comment'\n",
    ],
)
def test_silences_with_a_reason__accepts_code_and_reason(line: str) -> None:
    assert list(silences_with_a_reason(line)) == []


def test_tidy__looks_at_this_very_file() -> None:
    assert PurePosixPath("tests/test_tidy.py") in _files()
