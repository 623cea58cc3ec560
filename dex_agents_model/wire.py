"""The durable form of every record: JSON data that a later release still reads.

A field that is unknown here is ignored; a major version that is unknown is refused. Text that is
too long for one entry is laid out over several by `layout`, not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, get_args

from attrs import fields
from cattrs import Converter
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from cattrs.preconf.json import make_converter

from .calls import AgentToolCall, ToolCallCompleted
from .errors import StateCorrupt
from .events import AgentEvent, AgentEventType, CustomEvent, EventPayload
from .ids import InterruptId, SessionId, ToolCallId, TurnId
from .records import AgentInterruptResolution, AgentState, TurnEnd

T = TypeVar("T")
JsonData: TypeAlias = "bool | int | float | str | list[JsonData] | dict[str, JsonData] | None"
"""What JSON can hold."""

TurnSignal: TypeAlias = ToolCallCompleted | AgentInterruptResolution
"""What the Steps of a turn are told in Channels. One union: who drains several Channels at once reads any of it."""

MAJOR_VERSION: Final = 1
_VERSION_KEY: Final = "v"
_ITEMS_KEY: Final = "items"


def dump(value: object, shape: object) -> dict[str, JsonData]:
    """``value`` as JSON data. ``shape`` is its declared type: a record, a union of records, or a tuple of one."""
    data = _CONVERTER.unstructure(value, shape)
    if isinstance(data, dict):
        return {_VERSION_KEY: MAJOR_VERSION, **data}
    return {_VERSION_KEY: MAJOR_VERSION, _ITEMS_KEY: list(data)}


def load(data: object, shape: type[T]) -> T:
    """What `dump` made ``data`` from.

    Raises:
        StateCorrupt: ``data`` has another form, or a major version that this release does not know.
    """
    if not isinstance(data, dict) or not isinstance(data.get(_VERSION_KEY), int):
        raise StateCorrupt(f"stored {_name(shape)} is no versioned JSON object: {data!r:.200}")
    version = data[_VERSION_KEY]
    if version != MAJOR_VERSION:
        raise StateCorrupt(
            f"stored {_name(shape)} has the form {version}; this release reads form {MAJOR_VERSION}."
            " Run the release that wrote it, or a newer one."
        )
    body = {key: item for key, item in data.items() if key != _VERSION_KEY}
    if not isinstance(body.get(_ITEMS_KEY, []), list):
        raise StateCorrupt(f"stored {_name(shape)} has no list of items: {data!r:.200}")
    try:
        return _CONVERTER.structure(body.get(_ITEMS_KEY, body), shape)
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise StateCorrupt(
            f"stored {_name(shape)} cannot be read: {error!r}: {data!r:.200}"
        ) from error


def _name(shape: object) -> str:
    return getattr(shape, "__name__", str(shape))


def _primitive(value: Any, shape: Any) -> Any:
    """A primitive as it is, or the member of an enumeration: what needs coercion was not written here."""
    if shape in (bool, int, str) and type(value) is not shape:
        raise TypeError(f"{value!r:.40} is no {shape.__name__}")
    return value if type(value) is shape else shape(value)


def _tag(converter: Converter, union: Any, name: str) -> None:
    """Each member of ``union`` carries its class attribute ``name``, which tells it from the others."""
    members: dict[str, type[Any]] = {str(getattr(m, name)): m for m in get_args(union)}

    def dump_member(plain: Callable[[Any], dict[str, JsonData]], tag: str) -> Callable[[Any], Any]:
        return lambda record: {name: tag, **plain(record)}

    def structure(data: Mapping[str, Any], _: object) -> Any:
        return converter.structure(data, members[data[name]])

    for tag, member in members.items():
        plain = converter.get_unstructure_hook(member, cache_result=False)
        converter.register_unstructure_hook(member, dump_member(plain, tag))
    converter.register_structure_hook(union, structure)
    converter.register_structure_hook(
        union | None, lambda data, shape: None if data is None else structure(data, shape)
    )


def _flatten_call(converter: Converter, record_class: type[Any]) -> None:
    """A record of a tool call has its call's fields beside its own."""
    dump_own = make_dict_unstructure_fn(record_class, converter)
    load_own = make_dict_structure_fn(record_class, converter, _cattrs_forbid_extra_keys=False)
    own_names = {f.name for f in fields(record_class)} - {"call"}

    def unstructure(record: Any) -> dict[str, JsonData]:
        data = dump_own(record)
        call: dict[str, JsonData] = data.pop("call")
        return {**call, **data}

    def structure(data: Mapping[str, JsonData], _: object) -> Any:
        own = {key: item for key, item in data.items() if key in own_names}
        return load_own({**own, "call": data}, record_class)

    converter.register_unstructure_hook(record_class, unstructure)
    converter.register_structure_hook(record_class, structure)


def _set_data_apart(converter: Converter) -> None:
    """An event is {type, turn_id, ..., data: its payload without the type}.

    One of a type that this release does not know is a CustomEvent of that name: watchers go on.
    """
    dump_plain = make_dict_unstructure_fn(AgentEvent, converter)
    load_plain = make_dict_structure_fn(AgentEvent, converter)
    known = {event_type.value for event_type in AgentEventType}

    def unstructure(event: AgentEvent) -> dict[str, JsonData]:
        data = dump_plain(event)
        payload = data.pop("payload")
        return {"type": payload.pop("type"), **data, "data": payload}

    def structure(data: Mapping[str, Any], _: object) -> AgentEvent:
        payload = {**data["data"], "type": data["type"]}
        if data["type"] not in known:
            custom = CustomEvent(data["type"], json.dumps(data["data"]))
            payload = converter.unstructure(custom, EventPayload)
        return load_plain({**data, "payload": payload}, AgentEvent)

    converter.register_unstructure_hook(AgentEvent, unstructure)
    converter.register_structure_hook(AgentEvent, structure)


def _make_converter() -> Converter:
    converter = make_converter(forbid_extra_keys=False, detailed_validation=False)
    for primitive in (bool, int, str):
        converter.register_structure_hook(primitive, _primitive)
    for identifier in (SessionId, TurnId, ToolCallId, InterruptId):
        converter.register_structure_hook(
            identifier, lambda text, shape: shape(_primitive(text, str))
        )
        converter.register_unstructure_hook(identifier, str)
    for record_class in get_args(AgentToolCall):
        _flatten_call(converter, record_class)
    _tag(converter, TurnEnd, "outcome")
    _tag(converter, TurnSignal, "signal")
    _tag(converter, AgentToolCall, "status")
    _tag(converter, AgentState, "status")
    _tag(converter, EventPayload, "type")
    _set_data_apart(converter)
    return converter


_CONVERTER: Final = _make_converter()
