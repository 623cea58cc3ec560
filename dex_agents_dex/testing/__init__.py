"""Tests of agents on real processes: a server, Workers that die at an exact moment, and what is left to see.

Nothing here is for production. Only `plugin` needs pytest; it is not imported from here.
"""

from ..server_history import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    WAIT_FOR_COMPLETED_EVENT,
    WAIT_FOR_FAILED_EVENT,
)
from .cables import Cable
from .children import ChildProgram
from .gates import FileGate
from .history import StepHistoryEntry, read_step_history
from .invocations import Invocation, InvocationLog
from .serving import run_agent_worker
from .stack import AgentTestStack
from .waiting import wait_for_agent_snapshot, wait_until

__all__ = [
    "EXECUTE_COMPLETED_EVENT",
    "EXECUTE_FAILED_EVENT",
    "WAIT_FOR_COMPLETED_EVENT",
    "WAIT_FOR_FAILED_EVENT",
    "AgentTestStack",
    "Cable",
    "ChildProgram",
    "FileGate",
    "Invocation",
    "InvocationLog",
    "StepHistoryEntry",
    "read_step_history",
    "run_agent_worker",
    "wait_for_agent_snapshot",
    "wait_until",
]
