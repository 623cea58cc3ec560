"""What the packages offer, as their source says it: names, signatures, docstrings. Nothing is imported or judged."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from attrs import frozen

from .source import (
    Body,
    Function,
    code_of,
    defined_by,
    definition,
    root_of,
    targets_of,
    text_behind,
    tree_of,
)

MODULES: Final[Mapping[str, str]] = {
    "dex_agents_dex": "Flows, runtime and client: what an application uses",
    "dex_agents_pydantic_ai": "Pydantic AI agents as sessions",
    "dex_agents_dex.tracing": "OpenTelemetry",
    "dex_agents_dex.testing": "Tests of agents on real processes",
    "dex_agents_dex.testing.plugin": "The same as pytest fixtures",
    "dex_agents_dex.devengine": "The dev engine inside a program",
    "dex_agents_model": "The session's vocabulary, and what a runner implements",
    "dex_agents_model.records": "What a session remembers",
    "dex_agents_model.calls": "Tool calls: status is the class",
    "dex_agents_model.events": "What watchers are told",
    "dex_agents_model.folding": "What watchers make of it",
    "dex_agents_model.steps": "The Steps",
    "dex_agents_model.views": "What a Step or a request loads",
    "dex_agents_model.effects": "What a Step asks for, and what can happen to it",
    "dex_agents_model.requests": "What a client asks for, and what it is answered",
    "dex_agents_model.decision": "What is decided",
    "dex_agents_model.waits": "What a Step waits for",
    "dex_agents_model.performing": "A runner's call as Dex makes it",
    "dex_agents_model.simulation": "Sessions without an engine",
}


@frozen
class Member:
    """A field, property or method of a class. ``raises`` are the exceptions that its own code raises."""

    name: str
    kind: str
    signature: str
    doc: str | None
    raises: tuple[str, ...] = ()


@frozen
class Public:
    """One name. ``bases`` of a class are those that are public themselves, or not of these packages.

    ``is_by_keyword``: the class is made of its fields, each by its name.
    """

    name: str
    kind: str
    signature: str
    doc: str | None
    bases: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    raises: tuple[str, ...] = ()
    is_by_keyword: bool = False


def names_of(module: str) -> list[str]:
    """What the module offers: what its ``__all__`` says, or else what it defines without an underscore."""
    for statement in tree_of(module).body:
        if isinstance(statement, ast.Assign) and targets_of(statement) == ["__all__"]:
            return [str(name) for name in ast.literal_eval(statement.value)]
    defined = (name for s in tree_of(module).body for name in defined_by(s))
    return sorted(name for name in defined if not name.startswith("_") and len(name) > 1)


@cache
def public_names() -> frozenset[str]:
    """All of them, of all modules."""
    return frozenset(name for module in MODULES for name in names_of(module))


def public(module: str, name: str) -> Public:
    """What ``module`` offers under ``name``."""
    home, statement, doc = definition(module, name)
    if isinstance(statement, ast.ClassDef):
        return Public(
            name,
            "class",
            _class_signature(home, statement),
            ast.get_docstring(statement),
            bases=tuple(
                base for base in map(root_of, statement.bases) if not _is_inlined(home, base)
            ),
            members=tuple(_members(home, statement)),
            is_by_keyword=any("kw_only=True" in code_of(d) for d in statement.decorator_list),
        )
    if isinstance(statement, Function):
        return Public(
            name,
            "function",
            _signature(home, statement, is_method=False),
            ast.get_docstring(statement),
            raises=_raised_in(statement),
        )
    return Public(name, "value", _value_signature(name, statement), doc)


# --- classes ---------------------------------------------------------------------------------


def _members(home: str, node: ast.ClassDef) -> Iterator[Member]:
    """Its own and those of its bases that nobody else can see, each once."""
    seen: set[str] = set()
    for module, each in _with_inlined_bases(home, node):
        for member in _own_members(module, each.body):
            if member.name not in seen:
                seen.add(member.name)
                yield member


def _with_inlined_bases(home: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    yield home, node
    for base in map(root_of, node.bases):
        if _is_inlined(home, base):
            module, found, _ = definition(home, base)
            assert isinstance(found, ast.ClassDef)
            yield from _with_inlined_bases(module, found)


def _is_inlined(home: str, base: str) -> bool:
    """Whether a base is of these packages and has no entry of its own."""
    if base in public_names():
        return False
    try:
        module, found, _ = definition(home, base)
    except (LookupError, FileNotFoundError):
        return False
    return module.startswith("dex_agents") and isinstance(found, ast.ClassDef)


def _own_members(home: str, body: Body) -> Iterator[Member]:
    for number, statement in enumerate(body):
        if isinstance(statement, Function):
            if not statement.name.startswith("_") and not _is_hidden(statement):
                yield _method(home, statement)
        elif isinstance(statement, ast.AnnAssign | ast.Assign):
            for name in targets_of(statement):
                if not name.startswith("_") and not _is_class_variable(statement):
                    signature = _value_signature(name, statement)
                    yield Member(name, "field", signature, text_behind(body, number))


def _is_hidden(node: Function) -> bool:
    """Validators of attrs, and what answers Dex: nobody calls them by name."""
    marks = [code_of(decorator) for decorator in node.decorator_list]
    return any(
        m.startswith(("_answers", "dex.rpc")) or ".validator" in m or ".default" in m for m in marks
    )


def _is_class_variable(statement: ast.AnnAssign | ast.Assign) -> bool:
    return isinstance(statement, ast.AnnAssign) and "ClassVar" in code_of(statement.annotation)


def _method(home: str, node: Function) -> Member:
    marks = {code_of(decorator) for decorator in node.decorator_list}
    doc, raises = ast.get_docstring(node), _raised_in(node)
    if marks & {"property", "cached_property"}:
        returns = "" if node.returns is None else f": {code_of(node.returns)}"
        return Member(node.name, "property", f"{node.name}{returns}", doc, raises)
    return Member(node.name, "method", _signature(home, node, is_method=True), doc, raises)


def _raised_in(node: Function) -> tuple[str, ...]:
    """The exceptions that it raises itself, not those of what it calls or defines."""
    found: set[str] = set()
    left: list[ast.AST] = list(node.body)
    while left:
        each = left.pop()
        if isinstance(each, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call):
            found.add(root_of(each.exc.func))
        left += ast.iter_child_nodes(each)
    return tuple(sorted(name for name in found if name[:1].isupper()))


# --- signatures ------------------------------------------------------------------------------


def _class_signature(home: str, node: ast.ClassDef) -> str:
    for module, each in _with_inlined_bases(home, node):
        for statement in each.body:
            if isinstance(statement, Function) and statement.name == "__init__":
                return f"class {node.name}{_arguments(module, statement.args, is_method=True)}"
    return f"class {node.name}"


def _signature(home: str, node: Function, *, is_method: bool) -> str:
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = "" if node.returns is None else f" -> {code_of(node.returns)}"
    return f"{start} {node.name}{_arguments(home, node.args, is_method=is_method)}{returns}"


def _arguments(home: str, arguments: ast.arguments, *, is_method: bool) -> str:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [_argument(home, a, d) for a, d in zip(positional, defaults, strict=True)]
    if is_method and parts and positional[0].arg in ("self", "cls"):
        parts = parts[1:]
    if arguments.vararg is not None:
        parts.append(f"*{_argument(home, arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [_argument(home, a, d) for a, d in keywords]
    line = f"({', '.join(parts)})"
    return line if len(line) < _WIDTH else "(\n    " + ",\n    ".join(parts) + ",\n)"


_WIDTH: Final = 80


def _argument(home: str, node: ast.arg, default: ast.expr | None) -> str:
    annotated = "" if node.annotation is None else f": {code_of(node.annotation)}"
    if default is None:
        return f"{node.arg}{annotated}"
    equals = " = " if annotated else "="
    return f"{node.arg}{annotated}{equals}{_default(home, default)}"


def _default(home: str, node: ast.expr) -> str:
    """A constant by what it is, not by its name."""
    if isinstance(node, ast.Name):
        _, statement, _ = definition(home, node.id)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            return code_of(statement.value)
    return code_of(node)


def _value_signature(name: str, statement: ast.stmt) -> str:
    if isinstance(statement, ast.AnnAssign):
        annotation = code_of(statement.annotation)
        shown = "" if statement.value is None else _shown_value(statement.value)
        if annotation in ("Final", "TypeAlias", "Final[tuple[Invariant, ...]]"):
            return f"{name}{shown}"
        return f"{name}: {annotation}{shown}"
    assert isinstance(statement, ast.Assign)
    return f"{name}{_shown_value(statement.value)}"


def _shown_value(node: ast.expr) -> str:
    text = code_of(node)
    if text.startswith("field("):
        defaults = [k.value for k in getattr(node, "keywords", []) if k.arg == "default"]
        return "" if not defaults else f" = {code_of(defaults[0])}"
    return f" = {text}" if len(text) < _WIDTH else ""


@cache
def contract_methods() -> frozenset[str]:
    """Methods of public Protocols: whoever implements one need not say again what it is."""
    protocols = (each for _, each in all_public() if "Protocol" in each.bases)
    return frozenset(member.name for each in protocols for member in each.members)


def all_public() -> Iterable[tuple[str, Public]]:
    """Every name with the module that offers it first."""
    seen: set[str] = set()
    for module in MODULES:
        for name in names_of(module):
            if name not in seen:
                seen.add(name)
                yield module, public(module, name)
