"""Long texts lie in parts beside their entry, and are joined again as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Cancelled,
    Failed,
    FinalCall,
    OutcomeUnknown,
    Rejected,
    Runnable,
    Succeeded,
)
from dex_agents_model.decision import InterruptResolved
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.ids import InterruptId, ToolCallId
from dex_agents_model.layout import (
    APPROVAL_ENTRY_BYTES,
    CALL_ENTRY_BYTES,
    INLINE_MESSAGE_TEXT_BYTES,
    INLINE_TEXT_BYTES,
    MESSAGE_ENTRY_BYTES,
    PART_BYTES,
    REQUEST_IDS_ENTRY_BYTES,
    REQUEST_IDS_KEYS,
    RUN_STATE_PART_BYTES,
    Entry,
    Laid,
    approval_key,
    is_final,
    lay_message,
    lay_run_state,
    lay_tool_call,
    message_key,
    read_message,
    read_run_state,
    read_shortened_tool_call,
    read_tool_call,
    request_ids_key,
    run_state_keys,
    tool_call_part_keys,
)
from dex_agents_model.notes import build_turn_failure_note
from dex_agents_model.records import (
    AgentMessage,
    AgentUserMessage,
    ApprovalDecision,
    ApprovalRecord,
    MessageRole,
)
from dex_agents_model.requests import KEPT_REQUEST_IDS, ResolveInterrupt, WithdrawUserMessage
from dex_agents_model.rules.approval import approval_record, interrupts_for
from dex_agents_model.table import answer
from dex_agents_model.text import MAX_ID_BYTES, size_bytes
from dex_agents_model.views import AnswerView
from dex_agents_model.wire import dump
from tests.rules.samples import NOW, view

from .samples import MESSAGE, REQUESTED, TURN
from .strategies import values

GOLDEN = Path(__file__).parent / "golden"
LONG = evolve(REQUESTED, arguments="\U0001f600" * 2000)
LONG_START = "\U0001f600" * 256 + "... [8000 bytes in full]"
FINAL: tuple[FinalCall, ...] = (
    Succeeded(LONG, "found"),
    Rejected(LONG, "no"),
    Failed(LONG, "broken"),
    OutcomeUnknown(LONG, "lost"),
    Cancelled(LONG),
)


def long_texts(least_characters: int) -> st.SearchStrategy[str]:
    """Texts of characters of 1 to 4 bytes, repeated to ``least_characters`` and more."""
    seeds = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9)
    return seeds.map(lambda seed: seed * (least_characters // len(seed) + 1))


def stored(entry: Entry) -> Entry:
    """``entry`` as it comes back from JSON."""
    return Entry(json.loads(json.dumps(entry.data, allow_nan=False)))


def of_size(laid: Laid) -> bool:
    return all(0 < size_bytes(part) <= PART_BYTES for part in laid.parts.values())


@given(
    values(AgentMessage),
    long_texts(INLINE_MESSAGE_TEXT_BYTES),
    st.sampled_from(("framework_item", "text", "output")),
)
def test_lay_message__is_undone_by_read_message(
    message: AgentMessage, long: str, field: str
) -> None:
    changes: dict[str, Any] = {field: long}
    message = evolve(message, **changes)
    laid = lay_message(message)

    assert read_message(stored(laid.entry), laid.parts) == message
    assert (set(laid.entry.part_keys()), of_size(laid)) == (set(laid.parts), True)


@given(values(Runnable | AwaitingApproval), long_texts(INLINE_TEXT_BYTES))
def test_lay_tool_call__is_undone_by_read_tool_call(
    record: Runnable | AwaitingApproval, arguments: str
) -> None:
    record = evolve(record, call=evolve(record.call, arguments=arguments))
    laid = lay_tool_call(record)

    assert read_tool_call(stored(laid.entry), laid.parts) == record
    assert tool_call_part_keys(record) == tuple(laid.parts)
    assert (set(laid.entry.part_keys()), of_size(laid)) == (set(laid.parts), True)


WORST: Final = ("x", "\x01", '"', "\\", "\u20ac", "\U0001f600")
"""Characters that take one byte, six as JSON, two as JSON, and three and four."""
LENGTHS: Final = (300, 2000, INLINE_TEXT_BYTES, 8000, INLINE_MESSAGE_TEXT_BYTES - 2, 100_000)


def entry_bytes(laid: Laid) -> int:
    return size_bytes(json.dumps(laid.entry.data, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("sign", WORST)
def test_entries__are_never_larger_than_is_said_of_them(sign: str, length: int) -> None:
    text, name = sign * length, ToolCallId(sign * 256)
    message = AgentMessage(
        *(1, TURN, MessageRole.TOOL, text, text, name, text, text, text), unbuilt=text
    )
    requested = evolve(
        REQUESTED, tool_call_id=name, tool_name=text, arguments=text, framework_memo=text
    )
    records: tuple[AgentToolCall, ...] = (
        Runnable(requested),
        Succeeded(requested, text, framework_content=text),
        Failed(requested, text),
        Rejected(requested, text),
        OutcomeUnknown(requested, text),
    )

    assert entry_bytes(lay_message(message)) <= MESSAGE_ENTRY_BYTES
    assert max(entry_bytes(lay_tool_call(record)) for record in records) <= CALL_ENTRY_BYTES


@pytest.mark.parametrize("sign", WORST)
def test_approval__is_never_larger_than_is_said_of_it(sign: str) -> None:
    longest, label = sign * 256, sign * 10_000
    requested = evolve(REQUESTED, tool_call_id=ToolCallId(longest), tool_name=longest)
    waiting = AwaitingApproval(requested)
    asked = interrupts_for((waiting,))
    said = ResolveInterrupt(
        waiting.interrupt_id, True, edited_arguments="{}", resolved_by=label, reason=label
    )
    accepted = answer(said, view(AnswerView, interrupts=asked), NOW).publishes[0]
    assert isinstance(accepted, InterruptResolved)
    record = approval_record(
        waiting, accepted.resolution, otherwise=ApprovalDecision.CANCELLED, now=NOW
    )

    stored = json.dumps(dump(record, ApprovalRecord), ensure_ascii=False, separators=(",", ":"))
    assert size_bytes(stored) <= APPROVAL_ENTRY_BYTES


@pytest.mark.parametrize("sign", WORST)
def test_request_ids__are_never_larger_than_is_said_of_them(sign: str) -> None:
    longest = sign * (MAX_ID_BYTES // size_bytes(sign))
    kept = [AgentUserMessage("hello", longest).message_id] * KEPT_REQUEST_IDS

    stored_bytes = size_bytes(json.dumps(kept, ensure_ascii=False, separators=(",", ":")))
    assert stored_bytes <= REQUEST_IDS_ENTRY_BYTES


@pytest.mark.parametrize("sign", WORST)
def test_request_ids__are_refused_when_they_are_longer(sign: str) -> None:
    longer = sign * (MAX_ID_BYTES // size_bytes(sign) + 1)
    refused = f"takes {size_bytes(longer):,} bytes; at most 1,024 are kept"

    with pytest.raises(ValueError, match=refused):
        AgentUserMessage("hello", longer)
    with pytest.raises(ValueError, match=refused):
        WithdrawUserMessage(longer)
    with pytest.raises(ValueError, match=refused):
        ResolveInterrupt(InterruptId.of(TURN, ToolCallId("c")), True, request_id=longer)


@given(st.text(st.characters(codec="utf-8")) | long_texts(RUN_STATE_PART_BYTES))
def test_lay_run_state__is_undone_by_read_run_state(run_state: str) -> None:
    parts = lay_run_state(run_state)

    assert read_run_state(parts) == (run_state or None)
    assert tuple(parts) == run_state_keys(len(parts))
    assert all(0 < size_bytes(part) <= RUN_STATE_PART_BYTES for part in parts.values())


@given(long_texts(RUN_STATE_PART_BYTES), st.text(st.characters(codec="utf-8"), min_size=1))
def test_lay_run_state__keeps_its_parts_but_the_last_as_it_grows(run_state: str, more: str) -> None:
    *kept, _ = lay_run_state(run_state).items()

    assert set(kept) <= set(lay_run_state(run_state + more).items())


@pytest.mark.parametrize("sign", ["x", "\u00e9", "\u20ac", "\U0001f600"])
def test_lay_message__cuts_between_characters(sign: str) -> None:
    size = size_bytes(sign)
    fit = (PART_BYTES - 1) // size
    message = evolve(MESSAGE, framework_item="." + sign * (fit + 1))

    laid = lay_message(message)

    assert {key: size_bytes(part) for key, part in laid.parts.items()} == {
        "000000000003.framework_item.000000": 1 + fit * size,
        "000000000003.framework_item.000001": size,
    }
    assert read_message(laid.entry, laid.parts) == message


@pytest.mark.parametrize("name", ["framework_item", "text"])
def test_lay_message__leaves_a_text_up_to_the_limit_in_its_entry(name: str) -> None:
    # As JSON a text has quotation marks around it, and a backslash before each of its own.
    short: dict[str, Any] = {name: "\u00e9" * (INLINE_MESSAGE_TEXT_BYTES // 4) + '"' * 4095}
    long: dict[str, Any] = {name: short[name] + "x"}

    assert lay_message(evolve(MESSAGE, **short)).parts == {}
    assert {key.rpartition(".")[0] for key in lay_message(evolve(MESSAGE, **long)).parts} == {
        f"000000000003.{name}"
    }


def test_lay_tool_call__leaves_a_text_up_to_the_limit_in_its_entry() -> None:
    short = evolve(REQUESTED, arguments="x" * (INLINE_TEXT_BYTES - 2))
    long = evolve(REQUESTED, arguments="x" * (INLINE_TEXT_BYTES - 1))

    assert lay_tool_call(Runnable(short)).parts == {}
    assert list(lay_tool_call(Runnable(long)).parts) == ["call-1.arguments.000000"]


@pytest.mark.parametrize("final", FINAL, ids=lambda record: record.status)
def test_lay_tool_call__leaves_the_arguments_of_a_final_call_where_they_lie(
    final: FinalCall,
) -> None:
    opened = lay_tool_call(Runnable(LONG))
    laid = lay_tool_call(final)

    assert (list(opened.parts), laid.parts) == (["call-1.arguments.000000"], {})
    assert read_tool_call(laid.entry, opened.parts) == final


def test_lay_tool_call__writes_the_result_of_a_final_call() -> None:
    opened = lay_tool_call(Runnable(LONG))
    final = Succeeded(LONG, "\u20ac" * INLINE_TEXT_BYTES, framework_content="<i>" * 2000)
    laid = lay_tool_call(final)

    assert list(laid.parts) == ["call-1.output.000000", "call-1.framework_content.000000"]
    assert read_tool_call(laid.entry, {**opened.parts, **laid.parts}) == final


@pytest.mark.parametrize("lost", ["call-1.arguments.000000", "call-1.output.000000"])
def test_read_tool_call__calls_a_missing_part_corrupt(lost: str) -> None:
    parts = {
        **lay_tool_call(Runnable(LONG)).parts,
        **lay_tool_call(Succeeded(LONG, "x" * 5000)).parts,
    }
    entry = lay_tool_call(Succeeded(LONG, "x" * 5000)).entry
    del parts[lost]

    with pytest.raises(StateCorrupt, match=rf"^the parts \['{lost}'\] of a stored record are"):
        read_tool_call(entry, parts)


def test_read_message__calls_a_missing_part_corrupt() -> None:
    laid = lay_message(evolve(MESSAGE, text="x" * (INLINE_MESSAGE_TEXT_BYTES + 1)))
    *found, lost = laid.parts

    with pytest.raises(StateCorrupt, match=rf"^the parts \['{lost}'\] of a stored record are"):
        read_message(laid.entry, {key: laid.parts[key] for key in found})


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (Runnable(LONG), Runnable(evolve(LONG, arguments=LONG_START))),
        (
            Succeeded(LONG, "x" * 5000),
            Succeeded(
                evolve(LONG, arguments=LONG_START), "x" * 1024 + "... [5000 bytes in full]"
            ),
        ),
        (Failed(REQUESTED, "broken"), Failed(REQUESTED, "broken")),
    ],
    ids=["long arguments", "a long output", "nothing long"],
)  # fmt: skip
def test_read_shortened_tool_call__needs_no_part(
    record: AgentToolCall, shown: AgentToolCall
) -> None:
    assert read_shortened_tool_call(stored(lay_tool_call(record).entry)) == shown


def test_read_shortened_tool_call__lets_a_note_tell_the_size_in_full() -> None:
    record = Succeeded(evolve(REQUESTED, arguments_edited=False), "x" * 5000)
    shortened = read_shortened_tool_call(lay_tool_call(record).entry)

    assert build_turn_failure_note((shortened,)) == (
        "[Dex] The previous turn failed after these tool calls ran:\n"
        f'- refund {{"order": 7}} -> succeeded: {"x" * 1024}... [5000 bytes in full]\n'
        "Do not repeat these tool calls unless the user asks again."
    )


@pytest.mark.parametrize(
    ("record", "final"),
    [(Runnable(REQUESTED), False), (AwaitingApproval(REQUESTED), False), *((f, True) for f in FINAL)],
    ids=lambda value: getattr(value, "status", None),
)  # fmt: skip
def test_is_final__tells_by_the_entry_alone(record: AgentToolCall, final: bool) -> None:
    assert is_final(lay_tool_call(record).entry) == final


@given(st.integers(1, 10**12 - 1), st.integers(1, 10**12 - 1))
def test_approval_key__sorts_as_decisions_were_made(first: int, second: int) -> None:
    assert (approval_key(first) < approval_key(second)) == (first < second)
    assert approval_key(7) == "000000000007"


@given(st.integers(1, 10**12 - 1), st.integers(1, 10**12 - 1))
def test_message_key__sorts_as_the_sequence(first: int, second: int) -> None:
    assert (message_key(first) < message_key(second)) == (first < second)


def test_read_run_state__is_none_without_parts() -> None:
    assert read_run_state({}) is None


def test_read_tool_call__reads_the_layout_that_was_released() -> None:
    released = json.loads((GOLDEN / "v1" / "laid" / "tool_call.json").read_text(encoding="utf-8"))
    whole = Succeeded(evolve(REQUESTED, arguments='{"order": 7}'), "refunded")

    assert read_tool_call(Entry(released["entry"]), released["parts"]) == whole


def test_read_message__reads_the_layout_that_was_released() -> None:
    released = json.loads((GOLDEN / "v1" / "laid" / "message.json").read_text(encoding="utf-8"))

    assert read_message(Entry(released["entry"]), released["parts"]) == MESSAGE


def test_request_ids_key__is_always_the_same_one_of_those_there_are() -> None:
    ids = [f"request-{number}" for number in range(1000)]

    assert {request_ids_key(each) for each in ids} == set(REQUEST_IDS_KEYS)
    assert request_ids_key("\ud800") == request_ids_key("\ud800")
