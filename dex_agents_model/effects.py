"""What a Step may ask the world for, and everything that can happen to a Step. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import field, frozen

from .calls import AgentToolCall, Runnable
from .ids import ToolCallId, TurnId
from .policy import ToolPolicy
from .records import (
    AgentInterruptResolution,
    AgentMessage,
    AgentUsage,
    AgentUserMessage,
    FrameworkMessage,
    SteeringMessage,
)

# --- effects: what a Step asks for -----------------------------------------------------------


@frozen
class CallModel:
    """Let the runner make one model call. ``run_state`` is None on the turn's first one.

    ``messages`` are all stored ones in sequence order behind the ``summary``, if there is one;
    ``tool_calls`` are the turn's records in model order, each of them final; ``steering_messages``
    are what the user said since the model call before, in order.
    """

    turn: TurnId
    messages: tuple[AgentMessage, ...]
    run_state: str | None
    tool_calls: tuple[AgentToolCall, ...]
    steering_messages: tuple[AgentUserMessage, ...] = ()
    summary: str | None = None
    shortened_results: tuple[ToolCallId, ...] = ()
    """Calls whose results are too much for the context window: the model is shown their start."""


@frozen
class ExecuteTool:
    """Let the runner run one tool once; ``fenced``: only after this delivery has claimed the call."""

    record: Runnable
    fenced: bool = False

    @property
    def turn(self) -> TurnId:
        """The turn that asked for the call."""
        return self.record.turn_id


@frozen
class Summarize:
    """Let the runner summarise ``messages`` and, when there is one, the summary that stood before them."""

    turn: TurnId
    messages: tuple[AgentMessage, ...]
    previous_summary: str | None
    token_limit: int


@frozen
class BuildUnfinishedTurn:
    """Let the runner make messages of what an unfinished turn has finished, when it can.

    ``error`` is why the turn failed; None when a person cancelled it.
    """

    turn: TurnId
    run_state: str
    tool_calls: tuple[AgentToolCall, ...]
    error: str | None


Effect: TypeAlias = CallModel | ExecuteTool | Summarize | BuildUnfinishedTurn
"""What a Step may ask for, once in an execution."""


# --- occurrences: what happened ---------------------------------------------------------------


@frozen(kw_only=True)
class ModelCallMetadata:
    """What the framework knows of a model call beyond its result: for traces, never stored.

    ``provider`` is the value of OpenTelemetry's ``gen_ai.provider.name``. None means unknown.
    """

    request_model: str | None = None
    response_model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None


@frozen
class Entered:
    """The Step begins, and nothing was awaited."""


@frozen
class UserSpoke:
    """A message of the queue was taken."""

    message: AgentUserMessage


@frozen
class UserSteered:
    """A steering message was taken while no turn ran."""

    steering: SteeringMessage


@frozen
class InterruptAnswered:
    """A person's answer was taken."""

    resolution: AgentInterruptResolution


@frozen
class DeadlineReached:
    """The Timer fired before an answer came."""


@frozen
class ToolResultsArrived:
    """As many tool calls as were awaited have become final."""


@frozen
class AttemptsExhausted:
    """The Step whose failure route this is was given up. ``detail`` is its last error."""

    detail: str
    error_type: str = ""


@frozen
class DeferredToolCall:
    """One tool call that the model asked for, as the runner saw it; checked by the session.

    ``framework_memo`` comes back with the call's record; it must be text that UTF-8 can hold.
    ``arguments`` is JSON text of an object, never a guess at one: a runner lets the model correct others.
    """

    tool_call_id: str
    tool_name: str
    arguments: str
    policy: ToolPolicy
    framework_memo: str | None = None


def _messages(messages: Iterable[FrameworkMessage]) -> tuple[FrameworkMessage, ...]:
    return tuple(messages)


def _calls(calls: Iterable[DeferredToolCall]) -> tuple[DeferredToolCall, ...]:
    return tuple(calls)


@frozen
class TurnCompleted:
    """The model gave its final answer.

    ``new_messages`` holds all that the turn produced after its user message, in order, over all of
    its model calls, what the user said meanwhile (``steering_messages``) included. ``usage`` is
    that of this model call alone. ``output`` is the answer as JSON text when it is data, such as an
    object of a type that the application asked for; there is then at least one new message.
    """

    new_messages: tuple[FrameworkMessage, ...] = field(converter=_messages)
    usage: AgentUsage = AgentUsage()
    metadata: ModelCallMetadata | None = None
    output: str | None = None


@frozen
class ToolCallsRequested:
    """The model asked for tools: 1 to n calls in model order, IDs unique within the turn.

    ``framework_run_state`` is not empty and continues the turn after the tools; ``run_state_tokens``
    is about how much of the next input it takes, None meaning a third of its bytes.
    """

    framework_run_state: str
    tool_calls: tuple[DeferredToolCall, ...] = field(converter=_calls)
    usage: AgentUsage = AgentUsage()
    metadata: ModelCallMetadata | None = None
    run_state_tokens: int | None = None


@frozen
class TurnGivenUp:
    """The model was asked as often as the framework may, and no answer can be used: the turn ends without one.

    ``error`` says why. ``usage`` is that of all its requests in this Step.
    """

    error: str
    usage: AgentUsage = AgentUsage()
    metadata: ModelCallMetadata | None = None


@frozen
class ToolReturned:
    """The tool ended with this text, and with what is no text (`Succeeded.framework_content`)."""

    output: str
    framework_content: str | None = None
    content_tokens: int | None = None


@frozen
class ToolRaised:
    """The tool said that it failed, in words for the model. Its work may have been done nevertheless."""

    message: str
    may_have_happened: bool = False


@frozen
class HistorySummarized:
    """A summary, and what making it used."""

    text: str
    usage: AgentUsage = AgentUsage()
    metadata: ModelCallMetadata | None = None


@frozen
class UnfinishedTurnBuilt:
    """``messages`` of the unfinished turn behind its user message, each tool call with its result.

    None when the runner cannot build them. ``error`` is that of the effect.
    """

    messages: tuple[FrameworkMessage, ...] | None
    error: str | None


Outcome: TypeAlias = (
    TurnCompleted
    | ToolCallsRequested
    | TurnGivenUp
    | ToolReturned
    | ToolRaised
    | HistorySummarized
    | UnfinishedTurnBuilt
)
"""What an effect comes to."""
Occurrence: TypeAlias = (
    Entered
    | UserSpoke
    | UserSteered
    | InterruptAnswered
    | DeadlineReached
    | ToolResultsArrived
    | AttemptsExhausted
    | Outcome
)
"""Everything that a Step may meet."""
