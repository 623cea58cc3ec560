"""Draws docs/transitions.md from the table: ``python -m dex_agents_model.docs [--check] [PATH]``.

A tool for those who work on the model: the one file here that reads and writes files. Nothing
about a session may be said here; what the page says is said by the table and by docstrings.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from difflib import unified_diff
from inspect import getdoc
from pathlib import Path
from typing import Any, Final, get_args

from attrs import fields_dict

from .calls import Failed, OutcomeUnknown, ToolEffect
from .decision import EndBranch
from .effects import ExecuteTool
from .policy import EFFECT_RULES
from .spec import Limits, Lock, Row, RpcSpec, Spec, row_name
from .steps import Step
from .table import RPCS, SPECS

DEFAULT_PATH: Final = Path("docs") / "transitions.md"

_OPENING: Final = """\
# Transitions

Every edge of a session. This page is generated from `dex_agents_model/table.py`: change the table,
then run `make docs`.

A Step reads a view, meets one occurrence, and returns what to commit. Step and occurrence name the row:
errors and simulated traces cite `RunModel.TurnCompleted`, and `transitions.md#RunModel.TurnCompleted` is
the place to link to. *Leads to* names the Steps that it may queue, the effects that it may ask for, or the
end of its branch (`EndBranch`). A Step whose input names a turn waits for nothing and ends its branch once
that turn has ended or is cancelled."""


def transitions() -> str:
    """The whole page."""
    sections = (
        _OPENING,
        "## Diagram\n\nAn edge is labelled with the occurrences that take it. Effects stand in the tables below.",
        "\n".join(("```mermaid", *_diagram(), "```")),
        "## Steps",
        *(part for entry in SPECS for part in _step(entry)),
        "## RPCs",
        _table(
            ("Request", "Reads", "Locks", "Transactional", "Ends", "Starts", "Rule"),
            map(_rpc_row, RPCS),
        ),
        "## Tool effects",
        _table(
            ("Effect", "Step", "Attempts", "Approval", "Given up when it may have started"),
            (_effect_row(effect) for effect in EFFECT_RULES),
        ),
    )
    return "\n\n".join(sections) + "\n"


def _diagram() -> Iterator[str]:
    step_classes = set(get_args(Step))
    yield "stateDiagram-v2"
    yield f"    [*] --> {SPECS[0].step.__name__}"
    for called in RPCS:
        for started in called.to:
            yield f"    [*] --> {started.__name__}: {called.request.__name__}"
    for entry in SPECS:
        labels: dict[str, list[str]] = {}
        for row in entry.rows:
            for target in sorted(row.to, key=_name):
                if target in step_classes or target is EndBranch:
                    end = "[*]" if target is EndBranch else target.__name__
                    labels.setdefault(end, []).append(row.on.__name__)
        if entry.limits.on_exhausted is not None:
            labels.setdefault(entry.limits.on_exhausted.__name__, []).append("attempts spent")
        for end, occurrences in labels.items():
            yield f"    {entry.step.__name__} --> {end}: {', '.join(occurrences)}"


def _step(entry: Spec[Any, Any]) -> Iterator[str]:
    yield f"### {entry.step.__name__}"
    yield _first_sentence(entry.step)
    waits = "executes at once" if entry.wait is None else _rule(entry.wait)
    facts = (
        ("Input", _codes(fields_dict(entry.step)) or "none"),
        ("Reads", _code(entry.reads)),
        ("Waits", waits),
        ("Locks while it plans its wait", _locks(entry.wait_locks) if entry.wait else ""),
        ("Locks while it executes", _locks(entry.execute_locks)),
        ("Limits", _limits(entry.limits)),
        ("When they are spent", _route(entry.limits)),
        ("When its turn is cancelled", "goes on" if entry.outlives_cancel else ""),
    )
    yield "\n".join(f"- {name}: {fact}" for name, fact in facts if fact)
    yield _table(("Row", "Rule", "Leads to"), (_row(entry, row) for row in entry.rows))


def _row(entry: Spec[Any, Any], row: Row[Any, Any]) -> tuple[str, ...]:
    cited = _anchored(row_name(entry.step, row.on))
    return (cited, _rule(row.rule), _codes(sorted(map(_name, row.to))))


def _rpc_row(entry: RpcSpec[Any, Any]) -> tuple[str, ...]:
    return (
        _anchored(_name(entry.request)),
        _code(entry.reads),
        _locks(entry.locks),
        "yes" if entry.transactional else "no",
        _codes(map(_name, entry.cancels)) or "none",
        _codes(map(_name, entry.to)) or "none",
        _rule(entry.rule),
    )


def _effect_row(effect: ToolEffect) -> tuple[str, ...]:
    rule = EFFECT_RULES[effect]
    return (
        f"`{effect}`",
        _code(_running_step(rule.attempts)),
        str(rule.attempts),
        "required" if rule.requires_approval else "not required",
        _code(OutcomeUnknown if rule.may_have_happened else Failed),
    )


def _running_step(attempts: int) -> type[Step]:
    return next(
        entry.step
        for entry in SPECS
        if entry.limits.attempts == attempts and any(ExecuteTool in row.to for row in entry.rows)
    )


def _limits(limits: Limits) -> str:
    if limits.attempts is None:
        tries = "tries without end"
    else:
        tries = f"{_counted(limits.attempts, 'attempt')} within {_length(limits.within)}"
    heartbeat = limits.heartbeat_timeout
    beats = () if heartbeat is None else (f"a heartbeat every {_length(heartbeat)}",)
    pauses = (
        ()
        if limits.attempts == 1
        else (
            f"pauses from {_length(limits.first_interval)} to {_length(limits.longest_interval)}",
        )
    )
    return ", ".join((tries, f"{_length(limits.attempt_timeout)} each", *beats, *pauses))


def _route(limits: Limits) -> str:
    return "never" if limits.on_exhausted is None else _code(limits.on_exhausted)


def _length(duration: timedelta) -> str:
    """The duration in the largest unit that counts it whole."""
    for unit, name in (("days", "day"), ("hours", "hour"), ("minutes", "minute")):
        count, rest = divmod(duration, timedelta(**{unit: 1}))
        if count and not rest:
            return _counted(count, name)
    return _counted(duration // timedelta(seconds=1), "second")


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _rule(rule: Any) -> str:
    return f"`{rule.__name__}`: {_first_sentence(rule)}"


def _first_sentence(documented: object) -> str:
    paragraph = " ".join((getdoc(documented) or "").split("\n\n")[0].split())
    found = re.match(r".*?\.(?=\s|$)", paragraph)
    return (found.group() if found else paragraph).replace("``", "`")


def _locks(locks: tuple[Lock, ...]) -> str:
    return _codes(locks) or "none"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _anchored(name: str) -> str:
    return f'<a id="{name}"></a>`{name}`'


def _code(named: type[Any]) -> str:
    return f"`{named.__name__}`"


def _name(named: type[Any]) -> str:
    return named.__name__


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (heads, ("---",) * len(heads), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or with ``--check`` compare it.

    Raises:
        SystemExit: the page is stale (status 1), or the arguments are wrong (status 2).
    """
    parser = argparse.ArgumentParser(
        prog="python -m dex_agents_model.docs", description="Draw the page of transitions."
    )
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a stale page")
    chosen = parser.parse_args(arguments)
    path: Path = chosen.path
    page = transitions()
    if not chosen.check:
        path.write_text(page, encoding="utf-8")
        return
    stored = path.read_text(encoding="utf-8") if path.is_file() else ""
    if stored != page:
        changes = unified_diff(
            stored.splitlines(), page.splitlines(), str(path), "the table", lineterm=""
        )
        parser.exit(1, "\n".join((f"{path} differs from the table; run `make docs`", *changes, "")))


if __name__ == "__main__":
    main()
