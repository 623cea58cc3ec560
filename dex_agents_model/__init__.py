"""The pure state machine of a durable agent session: no clock, no input or output, no engine.

What an application or an adapter uses is named here; the rules stand behind `react` and `answer`.
"""

from .calls import AgentToolCall, ToolCallStatus, ToolEffect
from .effects import DeferredToolCall, ToolCallsRequested, TurnCompleted
from .errors import ContractBroken, StateCorrupt
from .events import AgentEvent, AgentEventType
from .ids import InterruptId, SessionId, ToolCallId, TurnId, idempotency_key
from .interpreter import StepPort, plan_wait, run_step
from .notes import (
    OUTCOME_UNKNOWN_TOOL_RESULT,
    build_turn_failure_note,
    describe_tool_call_outcome,
)
from .policy import AgentSessionOptions, ToolPolicy
from .records import (
    AgentInterrupt,
    AgentInterruptResolution,
    AgentMessage,
    AgentState,
    AgentStatus,
    AgentUsage,
    AgentUserMessage,
    FrameworkMessage,
    MessageRole,
)
from .requests import (
    AgentMessagesPage,
    AgentSnapshot,
    ListAgentMessages,
    ResolveInterrupt,
    SendUserMessage,
)
from .runner import (
    AgentEventWriter,
    AgentFrameworkRunner,
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    ToolExecutionError,
    ToolExecutionResult,
)
from .table import answer, await_conditions, react

__all__ = [
    "OUTCOME_UNKNOWN_TOOL_RESULT",
    "AgentEvent",
    "AgentEventType",
    "AgentEventWriter",
    "AgentFrameworkRunner",
    "AgentInterrupt",
    "AgentInterruptResolution",
    "AgentMessage",
    "AgentMessagesPage",
    "AgentSessionOptions",
    "AgentSnapshot",
    "AgentState",
    "AgentStatus",
    "AgentToolCall",
    "AgentTurnContext",
    "AgentTurnOutcome",
    "AgentUsage",
    "AgentUserMessage",
    "ContractBroken",
    "DeferredToolCall",
    "DeferredToolExecution",
    "FrameworkMessage",
    "InterruptId",
    "ListAgentMessages",
    "MessageRole",
    "ResolveInterrupt",
    "SendUserMessage",
    "SessionId",
    "StateCorrupt",
    "StepPort",
    "ToolCallId",
    "ToolCallStatus",
    "ToolCallsRequested",
    "ToolEffect",
    "ToolExecutionError",
    "ToolExecutionResult",
    "ToolPolicy",
    "TurnCompleted",
    "TurnId",
    "answer",
    "await_conditions",
    "build_turn_failure_note",
    "describe_tool_call_outcome",
    "idempotency_key",
    "plan_wait",
    "react",
    "run_step",
]
