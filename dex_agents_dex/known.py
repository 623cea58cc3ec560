"""What one invocation knows of its session's storage: what it read, and what it is about to commit."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from dex_agents_model.calls import AgentToolCall
from dex_agents_model.ids import ToolCallId
from dex_agents_model.layout import Entry
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
    """Of records whose long texts were not read."""
    summarised_entries: Mapping[int, Entry] = field(factory=dict)
    """Of stored messages that a summary may replace, by sequence."""
