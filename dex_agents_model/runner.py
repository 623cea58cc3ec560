"""What an agent framework's adapter implements, and what it is given. The session calls it; it never calls the session.

Each method may run again after a crash or a retry: a runner keeps nothing between calls and
derives everything from its arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from .calls import AgentToolCall, Runnable, ToolCallStatus, ToolEffect
from .effects import (
    HistorySummarized,
    ToolCallsRequested,
    TurnCompleted,
    TurnGivenUp,
)
from .ids import SessionId, ToolCallId, TurnId
from .policy import AgentSessionOptions, ToolPolicy
from .records import AgentMessage, AgentUsage, FrameworkMessage
from .text import clean_text, shorten

AgentTurnOutcome: TypeAlias = TurnCompleted | ToolCallsRequested | TurnGivenUp
"""What a model call comes to."""
Heartbeat: TypeAlias = Callable[[], Awaitable[None]]
"""Tells the engine that a long call is alive; a session does so by itself every 20 seconds."""

_NOTHING: Final = AgentUsage()
_CARRIED_BYTES: Final = 960  # with its marker below the 1 KiB of an error that Dex carries


class ToolExecutionError(Exception):
    """Raised by a runner for a failure that the model should see: recorded, and not tried again."""


class ToolOutcomeUnknown(ToolExecutionError):
    """Raised by a runner when the tool has had its say, and its work may have been done or be done later.

    It is not tried again: a write is recorded as ``outcome_unknown``, a read as ``failed``.
    """


class RunnerFailed(Exception):
    """Raised by a runner to fail the attempt with this message, which says all that is to be said.

    Any other exception fails it, too; its type then stands before its message. A long message is
    shortened: the engine carries it to the Step that records the failure.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shorten(clean_text(message), _CARRIED_BYTES))


class ToolNotStarted(RunnerFailed):
    """Raised by a runner that could not come to run the tool, such as without what the tool needs.

    A call that was claimed is then ``failed``, for nobody else can have started it. Of any other it
    fails the attempt, as other exceptions do.
    """


class ModelCallFailed(RunnerFailed):
    """Raised by a runner that knows what its failed model call used.

    The session counts only calls that it commits: ``usage`` is told to watchers and traces.
    """

    def __init__(self, message: str, *, usage: AgentUsage = _NOTHING) -> None:
        super().__init__(message)
        self.usage = usage


class AgentEventWriter(Protocol):
    """Tells watchers what happens during one call of the runner, best effort, from any thread.

    What is written after that call has returned is dropped.
    """

    def write_text_delta(self, text: str) -> None:
        """A piece of the model's answer, as it comes."""
        ...

    def write_reasoning_delta(self, text: str) -> None:
        """A piece of what the model shows of its thinking."""
        ...

    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None:
        """A tool runs inside the model call; of a deferred one the session tells by itself."""
        ...

    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None:
        """It has ended."""
        ...

    def write_event(self, name: str, data: str) -> None:
        """An event of the runner's own: a name and JSON text."""
        ...


@frozen(kw_only=True)
class AgentTurnContext:
    """One model call of a turn, and all committed state that it needs.

    ``attempt`` counts from 1. ``messages`` are all stored ones in sequence order, behind those that
    the ``summary`` stands for; the last user message belongs to this turn. ``framework_run_state``
    is None for the turn's first model call, else that of its latest ToolCallsRequested.
    ``tool_calls`` holds every record of the turn in model order, each of them final.
    """

    flow_id: SessionId
    turn_id: TurnId
    attempt: int
    messages: tuple[AgentMessage, ...]
    framework_run_state: str | None
    tool_calls: Mapping[ToolCallId, AgentToolCall]
    steering_messages: tuple[FrameworkMessage, ...]
    """What the user said since the model call before, each as the runner built it.

    It goes to the model beside the tool results.
    """
    summary: str | None
    """What the model is told of earlier turns, as a user message before the others; never stored as one."""
    shortened_results: frozenset[ToolCallId]
    """Calls of this turn whose results the model is shown only the start of (`shorten_result`)."""
    options: AgentSessionOptions
    events: AgentEventWriter
    heartbeat: Heartbeat
    """Records liveness. The session beats every 20 seconds by itself."""

    @property
    def is_resuming(self) -> bool:
        """Whether this model call goes on after tool calls."""
        return self.framework_run_state is not None

    def recorded_tool_call(self, tool_call_id: str) -> AgentToolCall:
        """The record of one call of this turn, by what the model calls it.

        Raises:
            KeyError: the turn has no such call.
        """
        return self.tool_calls[ToolCallId.standing_for(tool_call_id)]

    def resolve_tool_policy(
        self, tool_name: str, framework_effect: ToolEffect | None = None
    ) -> ToolPolicy:
        """The policy of a tool: the application's, else the framework's hint, else the default."""
        return self.options.resolve_tool_policy(tool_name, framework_effect)


@frozen(kw_only=True)
class DeferredToolExecution:
    """One attempt to run one tool call that may run.

    ``idempotency_key`` is ``<flow_id>/<turn_id>/<tool_call_id>``, the same on every attempt.
    """

    flow_id: SessionId
    tool_call: Runnable
    idempotency_key: str
    attempt: int
    events: AgentEventWriter
    heartbeat: Heartbeat


@frozen
class ToolExecutionResult:
    """What the tool returned: its text as the model will see it, and what is no text.

    ``framework_content`` is opaque and comes back with the call's record; it must be text that
    UTF-8 can hold. ``content_tokens`` is about how much of a model's input it takes; None means a
    third of its bytes.
    """

    output: str
    framework_content: str | None = None
    content_tokens: int | None = None


class AgentFrameworkRunner(Protocol):
    """The contract of an adapter ([core: runner contract])."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        """``text`` as a message of the user. Must not block, and must give the same for the same text.

        A text that it cannot build is kept as it was said, and asked for again at the model call
        that needs it; a turn that it opens fails there.
        """
        ...

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Make one model call, and run no tool that can be deferred.

        TurnGivenUp ends the turn. Any exception fails the attempt, which is tried again; a
        `ModelCallFailed` also says what it used.
        """
        ...

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        """Run the tool once. May run at the same time as other calls.

        Raises:
            ToolExecutionError: a failure for the model to see; the call is not tried again.
            ToolOutcomeUnknown: the same, and the work of a write may have been done.
            ToolNotStarted: nothing of the tool has run.
            Exception: anything else fails the attempt; the effect's line in the table decides.
        """
        ...


@runtime_checkable
class TakesUserContent(Protocol):
    """A runner must also have this when users send more than text, such as images."""

    def build_user_message_with_content(
        self, text: str, framework_content: str
    ) -> FrameworkMessage:
        """``text``, which may be blank, and what lies beside it as one message of the user.

        Must not block, and must give the same for the same arguments.

        Raises:
            ValueError: this runner cannot read ``framework_content``.
        """
        ...


@frozen(kw_only=True)
class SummaryRequest:
    """What is to be summarised: whole turns, oldest first, and the summary of what lay before them."""

    flow_id: SessionId
    turn_id: TurnId
    attempt: int
    messages: tuple[AgentMessage, ...]
    previous_summary: str | None
    token_limit: int
    heartbeat: Heartbeat


@runtime_checkable
class SummarizesHistory(Protocol):
    """A runner must also have this when its sessions have a CompactionPolicy."""

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        """One model call without tools. Any exception fails the attempt."""
        ...

    def estimate_overhead_tokens(self) -> int:
        """About how much of each input the runner adds by itself: instructions, tool definitions."""
        ...


@frozen(kw_only=True)
class UnfinishedTurn:
    """A turn that failed or was cancelled after it had asked for tools; every record is final."""

    flow_id: SessionId
    turn_id: TurnId
    framework_run_state: str
    tool_calls: Mapping[ToolCallId, AgentToolCall]


@runtime_checkable
class KeepsUnfinishedTurns(Protocol):
    """A runner may also have this, so that a turn without an answer keeps its exact items."""

    def build_unfinished_turn_messages(
        self, turn: UnfinishedTurn
    ) -> Sequence[FrameworkMessage] | None:
        """Every item of the turn behind its user message, each tool call followed by its result.

        None when this turn cannot be kept; the session then stores a note instead. Must not block.
        """
        ...
