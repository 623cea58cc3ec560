"""The result of a call that may still be open."""

from dex_agents_model.calls import AgentToolCall


def output(record: AgentToolCall) -> str:
    return record.output  # refused: union-attr
