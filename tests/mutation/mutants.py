"""Every small change of a module's code that a test should notice. How a change is tried is not said here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from attrs import frozen

Edit: TypeAlias = Callable[[Any], ast.AST]
"""Given a node of a tree of its own: changes it, or gives what is to stand in its place."""

_OPPOSITES: Final[dict[type[ast.AST], tuple[type[ast.AST], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_LISTS: Final = ("values", "elts", "args", "keywords", "ifs")
_PARTS: Final = ("guard", "lower", "upper")


@frozen
class Mutant:
    line: int
    change: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """One mutant for each change of each node; annotations, imports and docstrings are left alone."""
    skipped = _skipped(ast.parse(source))
    for place, node in enumerate(ast.walk(ast.parse(source))):
        if place in skipped:
            continue
        for change, edit in _edits(node):
            tree = ast.parse(source)
            changed = _Changed(list(ast.walk(tree))[place], edit).visit(tree)
            text = ast.unparse(ast.fix_missing_locations(changed))
            yield Mutant(_line(node), f"{change}: {ast.unparse(node)[:80]!r}", text)


class _Changed(ast.NodeTransformer):
    def __init__(self, node: ast.AST, edit: Edit) -> None:
        self._node = node
        self._edit = edit

    def visit(self, node: ast.AST) -> Any:
        return self._edit(node) if node is self._node else self.generic_visit(node)


def _line(node: ast.AST) -> int:
    return next(
        (part.lineno for part in ast.walk(node) if isinstance(part, ast.expr | ast.stmt)), 0
    )


def _skipped(tree: ast.AST) -> set[int]:
    """The places of nodes that mean nothing when the module runs."""
    unread: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            unread.update(map(id, ast.walk(node)))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            unread.update(map(id, ast.walk(node)))
        for name in ("annotation", "returns"):
            annotation = getattr(node, name, None)
            if annotation is not None:
                unread.update(map(id, ast.walk(annotation)))
    return {place for place, node in enumerate(ast.walk(tree)) if id(node) in unread}


def _edits(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.Constant():
            yield from _constants(node)
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in _OPPOSITES[type(operator)]:
                    yield f"{other.__name__} instead", _operator_at(place, other)
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in _OPPOSITES:
            for other in _OPPOSITES[type(node.op)]:
                yield f"{other.__name__} instead", _with(op=other())
        case ast.UnaryOp():
            yield "without its sign", lambda found: found.operand
        case ast.If() | ast.IfExp():
            yield "always", _with(test=ast.Constant(True))
            yield "never", _with(test=ast.Constant(False))
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "returns None", _with(value=ast.Constant(None))
        case ast.Raise() | ast.Expr() | ast.AugAssign():
            yield "left out", lambda _: ast.Pass()
        case ast.Call():
            yield from _arguments(node)
    yield from _parts(node)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Edit]]:
    match node.value:
        case bool(value):
            yield f"{not value}", _with(value=not value)
        case int(value):
            yield f"{value + 1}", _with(value=value + 1)
            yield f"{value - 1}", _with(value=value - 1)
        case str(value):
            yield "another text", _with(value=f"{value}?")
        case None:
            yield "a text", _with(value="?")


def _arguments(node: ast.Call) -> Iterator[tuple[str, Edit]]:
    for place, argument in enumerate(node.args):
        if not _is_none(argument):
            yield f"argument {place} None", _nothing_at("args", place)
    for place, keyword in enumerate(node.keywords):
        if not _is_none(keyword.value):
            yield f"{keyword.arg} None", _nothing_at("keywords", place)
    if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
        yield "its argument alone", lambda found: found.args[0]


def _parts(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    """Each part that can be left out."""
    for name in _PARTS:
        if getattr(node, name, None) is not None:
            yield f"without its {name}", _with(**{name: None})
    if not isinstance(node, ast.arguments):
        for name in _LISTS:
            part = getattr(node, name, ())
            for place in range(len(part) if isinstance(part, list) else 0):
                yield f"without {name} {place}", _without(name, place)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _with(**values: object) -> Edit:
    def edit(node: Any) -> ast.AST:
        for name, value in values.items():
            setattr(node, name, value)
        changed: ast.AST = node
        return changed

    return edit


def _operator_at(place: int, operator: type[ast.AST]) -> Edit:
    def edit(node: Any) -> ast.AST:
        node.ops[place] = operator()
        changed: ast.AST = node
        return changed

    return edit


def _nothing_at(name: str, place: int) -> Edit:
    def edit(node: Any) -> ast.AST:
        if name == "keywords":
            node.keywords[place].value = ast.Constant(None)
        else:
            node.args[place] = ast.Constant(None)
        changed: ast.AST = node
        return changed

    return edit


def _without(name: str, place: int) -> Edit:
    def edit(node: Any) -> ast.AST:
        left = getattr(node, name)
        del left[place]
        alone: ast.AST = left[0] if isinstance(node, ast.BoolOp) and len(left) == 1 else node
        return alone

    return edit
