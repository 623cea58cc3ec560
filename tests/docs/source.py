"""Where a name of the packages is defined, and what stands behind it. Source is read; nothing is imported."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from typing import TypeAlias

from .pages import ROOT

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Body: TypeAlias = list[ast.stmt]


@cache
def tree_of(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def definition(module: str, name: str) -> tuple[str, ast.stmt, str | None]:
    """The module that defines it, the statement, and the text behind the statement."""
    body = tree_of(module).body
    for number, statement in reversed([*enumerate(body)]):  # the last: overloads come first
        if name in defined_by(statement):
            return module, statement, text_behind(body, number)
        if isinstance(statement, ast.ImportFrom) and name in [a.name for a in statement.names]:
            return definition(_source(module, statement), name)
    raise LookupError(f"{module} has no {name}")


def _source(module: str, statement: ast.ImportFrom) -> str:
    if not statement.level:
        assert statement.module is not None
        return statement.module
    is_package = ROOT.joinpath(*module.split(".")).is_dir()
    parts = module.split(".")
    package = parts[: len(parts) - statement.level + (1 if is_package else 0)]
    return ".".join([*package, *(statement.module or "").split(".")]).rstrip(".")


def defined_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ClassDef | Function):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return targets_of(statement)
    return []


def targets_of(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def text_behind(body: Body, number: int) -> str | None:
    """The string that stands behind a field or a constant to tell what it is."""
    behind = body[number + 1] if number + 1 < len(body) else None
    if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
        text = behind.value.value
        return inspect.cleandoc(text) if isinstance(text, str) else None
    return None


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return code_of(node)


def code_of(node: ast.AST) -> str:
    """Its source, with quotes as the formatter has them."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', ast.unparse(node))
