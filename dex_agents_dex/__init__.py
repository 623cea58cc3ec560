"""Agent sessions on Dex: the Flow, the client, the runtime, and a dev engine for one machine."""

from dex_agents_model import AgentSessionOptions, ToolEffect, ToolPolicy

from .client import AgentSessionClient, ReadEvent
from .errors import (
    AgentSessionError,
    EngineUnavailable,
    SessionAlreadyExists,
    SessionBusy,
    SessionNotFound,
    WorkerFailed,
)
from .flow import AgentSessionFlow, agent_registry
from .runtime import AgentRuntime

__all__ = [
    "AgentRuntime",
    "AgentSessionClient",
    "AgentSessionError",
    "AgentSessionFlow",
    "AgentSessionOptions",
    "EngineUnavailable",
    "ReadEvent",
    "SessionAlreadyExists",
    "SessionBusy",
    "SessionNotFound",
    "ToolEffect",
    "ToolPolicy",
    "WorkerFailed",
    "agent_registry",
]
