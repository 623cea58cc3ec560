"""What one invocation knows of its session's storage: what it read, and what it is about to commit."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import ToolCallId
from dex_agents_model.layout import Entry, tool_call_part_keys
from dex_agents_model.records import AgentState


@define
class Known:
    """Filled by whoever reads and writes; asked for keys to delete, and for what a next Step must load."""

    state: AgentState | None = None
    """As it was read."""
    next_state: AgentState | None = None
    """As it will be once this invocation has committed."""
    run_state: str | None = None
    run_state_part_count: int = 0
    records: dict[ToolCallId, AgentToolCall] = field(factory=dict)
    call_entries: dict[ToolCallId, Entry] = field(factory=dict)
    """Of records that were read from storage, or are to be stored."""
    summarised_entries: Mapping[int, Entry] = field(factory=dict)
    """Of stored messages that a summary may replace, by sequence."""

    def call_part_keys(self, call: ToolCallId) -> tuple[str, ...]:
        """The keys of the parts in which long texts of a call's record lie; none of a call that is not known."""
        entry, record = self.call_entries.get(call), self.records.get(call)
        if entry is not None:
            return entry.part_keys()
        return () if record is None else tool_call_part_keys(record)
