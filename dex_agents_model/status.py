"""What an operator is shown of a session at a glance."""

from __future__ import annotations

from .records import AgentInterrupt, AgentState, AgentStatus, RunningTools


def shown_status(state: AgentState, interrupts: tuple[AgentInterrupt, ...]) -> AgentStatus:
    """What an operator is shown of a session: tools that run while a person is asked wait for that person."""
    if interrupts and isinstance(state, RunningTools):
        return AgentStatus.WAITING_FOR_APPROVAL
    return state.status
