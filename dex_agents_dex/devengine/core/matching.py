"""Whether an Attribute satisfies a `WaitForAttribute` predicate. Pure comparison."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid

_ORDERINGS: Final[dict[int, Callable[[float, float], bool]]] = {
    pb.ATTRIBUTE_MATCH_OPERATOR_GREATER_THAN: operator.gt,
    pb.ATTRIBUTE_MATCH_OPERATOR_GREATER_THAN_OR_EQUAL: operator.ge,
    pb.ATTRIBUTE_MATCH_OPERATOR_LESS_THAN: operator.lt,
    pb.ATTRIBUTE_MATCH_OPERATOR_LESS_THAN_OR_EQUAL: operator.le,
}
_EQUALITIES: Final = (
    pb.ATTRIBUTE_MATCH_OPERATOR_EQUAL,
    pb.ATTRIBUTE_MATCH_OPERATOR_NOT_EQUAL,
)


def require_match(match: pb.AttributeMatch) -> None:
    """Raise `Refusal` for a predicate that compares nothing."""
    if not match.key:
        raise invalid("an Attribute match needs a key")
    scalar = _scalar(match.operand)
    if scalar is None:
        raise invalid("an Attribute match needs a string, boolean, integer or float operand")
    if match.operator in _ORDERINGS:
        if _number(match.operand) is None:
            raise invalid("an ordering needs an integer or float operand")
    elif match.operator not in _EQUALITIES:
        raise invalid(f"unknown Attribute match operator {match.operator}")


def matches(match: pb.AttributeMatch, value: pb.Value | None) -> bool:
    """An absent Attribute never matches. The value has its content inside, not in a blob."""
    if value is None:
        return False
    ordering = _ORDERINGS.get(match.operator)
    if ordering is not None:
        left, right = _number(value), _number(match.operand)
        return left is not None and right is not None and ordering(left, right)
    is_equal = _scalar(value) == _scalar(match.operand)
    return is_equal == (match.operator == pb.ATTRIBUTE_MATCH_OPERATOR_EQUAL)


def _number(value: pb.Value) -> float | None:
    kind = value.WhichOneof("kind")
    if kind == "int_value":
        return value.int_value
    return value.double_value if kind == "double_value" else None


def _scalar(value: pb.Value) -> tuple[str, str | float] | None:
    """The kind and content of a value that can be compared; numbers compare across kinds."""
    kind = value.WhichOneof("kind")
    number = _number(value)
    if number is not None:
        return "number", number
    if kind == "bool_value":
        return "bool", value.bool_value
    return ("string", value.string_value) if kind == "string_value" else None
