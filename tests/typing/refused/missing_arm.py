"""A ``match`` over the records of a tool call that forgets a status."""

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    Failed,
    Rejected,
    Runnable,
    Succeeded,
)


def describe(record: AgentToolCall) -> str:  # refused: return
    match record:
        case AwaitingApproval() | Runnable():
            return "open"
        case Succeeded() | Rejected() | Failed():
            return "final"
