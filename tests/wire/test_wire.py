"""Records to JSON and back, today and from any release of this major version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from attrs import NOTHING
from hypothesis import given, settings
from hypothesis import strategies as st

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import AgentEvent, CustomEvent, StepMethod
from dex_agents_model.records import (
    AgentState,
    AgentUsage,
    AgentUserMessage,
    SteeringMessage,
    WaitingForUserMessage,
)
from dex_agents_model.wire import dump, load

from .golden import FOLDER
from .samples import SAMPLES, SHAPES, TURN, Sample, classes_of_unions
from .strategies import values

JUNK: tuple[object, ...] = (None, [], {}, "junk", 5, [None], {"type": "junk"})


def named(sample: Sample) -> str:
    return sample.name


def through_json(value: object, shape: Any) -> Any:
    return json.loads(json.dumps(dump(value, shape), allow_nan=False, ensure_ascii=False))


def golden(sample: Sample) -> Any:
    return json.loads((FOLDER / f"{sample.name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_load__reads_what_dump_wrote(sample: Sample) -> None:
    loaded = load(through_json(sample.value, sample.shape), sample.shape)

    assert (type(loaded), loaded) == (type(sample.value), sample.value)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: getattr(shape, "__name__", str(shape)))
@given(data=st.data())
@settings(max_examples=30)
def test_load__reads_whatever_dump_writes(shape: Any, data: st.DataObject) -> None:
    value = data.draw(values(shape))

    assert load(through_json(value, shape), shape) == value


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_load__reads_the_form_that_was_released(sample: Sample) -> None:
    assert load(golden(sample), sample.shape) == sample.value


def test_golden__has_a_file_for_each_sample_and_no_other() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(map(named, SAMPLES))


def test_samples__show_each_class_of_each_union() -> None:
    assert classes_of_unions() - set(map(type, parts_of(SAMPLES))) == set()


def test_samples__show_each_field_with_another_value_than_its_default() -> None:
    shown: dict[tuple[str, str], set[bool]] = {}
    for part in parts_of(tuple(sample.value for sample in SAMPLES)):
        for f in getattr(part, "__attrs_attrs__", ()):
            if f.default is not NOTHING:
                is_default = getattr(part, f.name) == f.default
                shown.setdefault((type(part).__name__, f.name), set()).add(is_default)

    assert [field for field, defaults in shown.items() if defaults == {True}] == []


def parts_of(value: object) -> Iterator[object]:
    """``value`` and all that it is made of."""
    yield value
    inner = value if isinstance(value, tuple) else getattr(value, "__attrs_attrs__", ())
    for item in inner:
        yield from parts_of(item if isinstance(value, tuple) else getattr(value, item.name))


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_load__ignores_fields_of_a_newer_release(sample: Sample) -> None:
    assert load(with_more_fields(golden(sample)), sample.shape) == sample.value


def with_more_fields(data: Any) -> Any:
    """``data`` with one field more in every object, however deep."""
    if isinstance(data, list):
        return [with_more_fields(item) for item in data]
    if isinstance(data, dict):
        return {**{key: with_more_fields(item) for key, item in data.items()}, "added_later": [{}]}
    return data


def test_load__reads_an_event_of_a_newer_release_as_a_custom_one() -> None:
    event = AgentEvent(
        TURN, "step-9", StepMethod.EXECUTE, 2, 7, CustomEvent("tool_call_dreamt", '{"depth": 2}')
    )
    data = dump(event, AgentEvent)

    newer = {**data, "type": "tool_call_dreamt", "data": {"depth": 2}}

    assert load(newer, AgentEvent) == event


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_load__refuses_a_newer_major_version(sample: Sample) -> None:
    with pytest.raises(
        StateCorrupt,
        match=r"has the form 2; this release reads form 1\."
        r" Run the release that wrote it, or a newer one\.$",
    ):
        load({**golden(sample), "v": 2}, sample.shape)


@pytest.mark.parametrize("data", [None, [], "text", {}, {"text": "hi"}, {"v": "1", "text": "hi"}])
def test_load__refuses_what_has_no_version(data: object) -> None:
    with pytest.raises(StateCorrupt, match=r"^stored AgentUserMessage is no versioned JSON object"):
        load(data, AgentUserMessage)


@pytest.mark.parametrize(
    ("shape", "data", "message"),
    [
        (AgentUserMessage, {"v": 1}, r"stored AgentUserMessage cannot be read: .*'text'"),
        (AgentState, {"v": 1, "status": "asleep"}, r"cannot be read: .*'asleep'"),
        (AgentState, {"v": 1, "status": "running_model", "turn_count": 0, "message_count": 0,
                      "model_calls": 0}, r"cannot be read: .*'turn_count' must be >= 1: 0"),
        (AgentEvent, {"v": 1, "type": "turn_started", "turn_id": "first", "step_execution_id": "s",
                      "attempt": 1, "index": 0, "data": {"sequence": 1}},
         r"stored AgentEvent cannot be read: .*turn ID 'first' is not of the form"),
        (AgentUsage, {"v": 1, "requests": "many"}, r"stored AgentUsage cannot be read: .*'many'"),
    ],
    ids=["a field is missing", "an unknown tag", "a number out of range", "no ID", "no number"],
)  # fmt: skip
def test_load__says_what_is_wrong_with_corrupt_data(shape: Any, data: object, message: str) -> None:
    with pytest.raises(StateCorrupt, match=message):
        load(data, shape)


def test_load__shortens_the_corrupt_data_that_it_shows() -> None:
    tool_call: Any = AgentToolCall

    with pytest.raises(StateCorrupt) as refused:
        load({"v": 1, "status": "asleep", "text": "x" * 10_000}, tool_call)

    assert len(str(refused.value)) < 500


def broken(data: Any) -> Iterator[Any]:
    """``data`` with each of its fields, however deep, missing once and once for each kind of junk."""
    if isinstance(data, list):
        for position, item in enumerate(data):
            for worse in (*broken(item), *JUNK):
                yield [*data[:position], worse, *data[position + 1 :]]
    elif isinstance(data, dict):
        for key, item in data.items():
            yield {name: kept for name, kept in data.items() if name != key}
            for worse in (*broken(item), *JUNK):
                yield {**data, key: worse}


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        (AgentUserMessage, {"v": 1, "text": None}),
        (
            SteeringMessage,
            {"v": 1, "message": {"text": "hi"}, "rejects_pending_approvals": "false"},
        ),
        (AgentUsage, {"v": 1, "requests": "5"}),
        (AgentUsage, {"v": 1, "requests": 1.5}),
        (tuple[str, ...], {"v": 1, "items": "ab"}),
    ],
    ids=["no text", "no truth value", "a number in a text", "no whole number", "no list"],
)
def test_load__coerces_nothing(shape: Any, data: object) -> None:
    with pytest.raises(StateCorrupt):
        load(data, shape)


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_load__reads_corrupt_data_or_calls_it_corrupt(sample: Sample) -> None:
    for data in broken(golden(sample)):
        with suppress(StateCorrupt):
            load(data, sample.shape)


def test_dump__has_its_version_and_its_tag_in_front() -> None:
    assert list(dump(WaitingForUserMessage(), AgentState))[:2] == ["v", "status"]
