"""Agent sessions on Dex: the Flow, the client, the runtime, and a dev engine for one machine."""

import os
from importlib.util import find_spec

if find_spec("dex") is None:
    raise ModuleNotFoundError(
        "dex_agents_dex needs the Dex SDK: install dex-agent-sessions with its extra 'dex'",
        name="dex",
    )

# Read by gRPC as it is imported. Below errors its core tells on standard error how connections end.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

# isort: split
from dex_agents_model import AgentSessionOptions, CompactionPolicy, ToolEffect, ToolPolicy

from .client import AgentSessionClient, EventsLost, FollowedEvent, TurnOutcome
from .errors import (
    AccessDenied,
    AgentSessionError,
    EngineUnavailable,
    FlowNotBound,
    MessageRefused,
    SessionAlreadyExists,
    SessionBusy,
    SessionNotFound,
    TurnNotFound,
    WorkerFailed,
)
from .event_reads import ReadEvent
from .flow import AgentSessionFlow, agent_registry
from .operations import Erasure
from .runtime import AgentRuntime
from .serving import RuntimeHealth
from .turn_trace import StepTracing

__all__ = [
    "AccessDenied",
    "AgentRuntime",
    "AgentSessionClient",
    "AgentSessionError",
    "AgentSessionFlow",
    "AgentSessionOptions",
    "CompactionPolicy",
    "EngineUnavailable",
    "Erasure",
    "EventsLost",
    "FlowNotBound",
    "FollowedEvent",
    "MessageRefused",
    "ReadEvent",
    "RuntimeHealth",
    "SessionAlreadyExists",
    "SessionBusy",
    "SessionNotFound",
    "StepTracing",
    "ToolEffect",
    "ToolPolicy",
    "TurnNotFound",
    "TurnOutcome",
    "WorkerFailed",
    "agent_registry",
]
