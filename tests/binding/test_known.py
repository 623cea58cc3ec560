"""What an invocation knows of a tool call's parts, wherever it has the record from."""

from __future__ import annotations

from attrs import evolve

from dex_agents_dex.known import Known
from dex_agents_model import ToolCallId
from dex_agents_model.calls import Succeeded
from dex_agents_model.layout import lay_tool_call
from tests.wire.samples import REQUESTED

LONG = "x" * 3000
RECORD = Succeeded(evolve(REQUESTED, arguments=LONG), LONG)
CALL = RECORD.tool_call_id
KEYS = (f"{CALL}.arguments.000000", f"{CALL}.output.000000")


def test_known__names_the_parts_of_a_record_that_was_read() -> None:
    assert Known(call_entries={CALL: lay_tool_call(RECORD).entry}).call_part_keys(CALL) == KEYS


def test_known__names_the_parts_of_a_record_that_the_worker_kept() -> None:
    assert Known(records={CALL: RECORD}).call_part_keys(CALL) == KEYS


def test_known__names_no_parts_of_a_call_that_it_does_not_know() -> None:
    assert Known(records={CALL: RECORD}).call_part_keys(ToolCallId("another")) == ()
