"""The pure state machine of a durable agent session: no clock, no input or output, no engine.

What an application or an adapter uses is named here; the rules stand behind `react` and `answer`.
"""

from .calls import AgentToolCall, FinalCall, Rejected, Succeeded, ToolCallStatus, ToolEffect
from .effects import (
    DeferredToolCall,
    HistorySummarized,
    ModelCallMetadata,
    ToolCallsRequested,
    TurnCompleted,
    TurnGivenUp,
)
from .errors import ContractBroken, StateCorrupt
from .events import AgentEvent, AgentEventType
from .ids import InterruptId, SessionId, ToolCallId, TurnId, idempotency_key
from .interpreter import StepPort, plan_wait, run_step
from .notes import (
    OUTCOME_UNKNOWN_TOOL_RESULT,
    build_turn_failure_note,
    describe_tool_call_outcome,
    shorten_result,
)
from .policy import AgentSessionOptions, CompactionPolicy, ToolPolicy
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
    KeepsUnfinishedTurns,
    ModelCallFailed,
    RunnerFailed,
    SummarizesHistory,
    SummaryRequest,
    TakesUserContent,
    ToolExecutionError,
    ToolExecutionResult,
    ToolOutcomeUnknown,
    UnfinishedTurn,
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
    "CompactionPolicy",
    "ContractBroken",
    "DeferredToolCall",
    "DeferredToolExecution",
    "FinalCall",
    "FrameworkMessage",
    "HistorySummarized",
    "InterruptId",
    "KeepsUnfinishedTurns",
    "ListAgentMessages",
    "MessageRole",
    "ModelCallFailed",
    "ModelCallMetadata",
    "Rejected",
    "ResolveInterrupt",
    "RunnerFailed",
    "SendUserMessage",
    "SessionId",
    "StateCorrupt",
    "StepPort",
    "Succeeded",
    "SummarizesHistory",
    "SummaryRequest",
    "TakesUserContent",
    "ToolCallId",
    "ToolCallStatus",
    "ToolCallsRequested",
    "ToolEffect",
    "ToolExecutionError",
    "ToolExecutionResult",
    "ToolOutcomeUnknown",
    "ToolPolicy",
    "TurnCompleted",
    "TurnGivenUp",
    "TurnId",
    "UnfinishedTurn",
    "answer",
    "await_conditions",
    "build_turn_failure_note",
    "describe_tool_call_outcome",
    "idempotency_key",
    "plan_wait",
    "react",
    "run_step",
    "shorten_result",
]
