"""Random values of any shape that the durable form knows, read off the records' own annotations."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from attrs import fields, has, resolve_types
from hypothesis import strategies as st

from dex_agents_model.ids import InterruptId, SessionId, ToolCallId, TurnId

TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=20)
_NUMBERS: Final = st.integers(min_value=1, max_value=2**53 - 1)
_TURNS: Final = _NUMBERS.map(TurnId.of)
_CALLS: Final = (
    st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=20)
    .filter(str.strip)
    .map(ToolCallId)
)
_SESSIONS: Final = (
    st.text(
        st.characters(
            codec="utf-8",
            exclude_categories=["Cc"],
            exclude_characters="/$:\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}",
        ),
        min_size=1,
        max_size=20,
    )
    .filter(str.strip)
    .map(SessionId)
)
_PLAIN: Final[dict[Any, st.SearchStrategy[Any]]] = {
    str: TEXT,
    int: _NUMBERS,
    bool: st.booleans(),
    NoneType: st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    TurnId: _TURNS,
    ToolCallId: _CALLS,
    InterruptId: st.builds(InterruptId.of, _TURNS, _CALLS),
    SessionId: _SESSIONS,
}


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Values of ``shape``: a record, a union of records, or a tuple of one."""
    if shape in _PLAIN:
        return _PLAIN[shape]
    if get_origin(shape) in (Union, UnionType):
        return st.one_of(*map(values, get_args(shape)))
    if get_origin(shape) is tuple:
        return st.lists(values(get_args(shape)[0]), max_size=3).map(tuple)
    if has(shape):
        resolve_types(shape)
        return st.builds(shape, **{f.name: values(f.type) for f in fields(shape)})
    if issubclass(shape, Enum):
        return st.sampled_from(shape)
    raise TypeError(f"no random values are known for {shape}")
