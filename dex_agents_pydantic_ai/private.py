"""What Pydantic AI does not promise to keep: its private fields and unwritten habits, each with a test of its own.

No other file of this package may read an underscored name of Pydantic AI, and no decision may live here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Final

from pydantic import ValidationError
from pydantic_ai import ModelRetry, RunContext, exceptions
from pydantic_ai._enqueue import PendingMessageQueue
from pydantic_ai._run_context import get_current_run_context
from pydantic_ai.agent import AbstractAgent, Agent, WrapperAgent
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    ToolRetryError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import CapabilityLoadDeltaPart, ModelMessage, UserContent
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models._request_timeout import stream_under_deadline
from pydantic_ai.run import AgentRun
from pydantic_ai.settings import ModelSettings

_OWN_TIMEOUT: Final = re.compile(r"Timed out after \S+ seconds\.")
_DURABLE_PACKAGE: Final = "pydantic_ai.durable_exec"

# Newer releases know more answers that were cut off than one in the middle of a tool call.
_OUTPUT_CUT_OFF: Final[type[Exception]] = getattr(
    exceptions, "OutputTokenLimitExceeded", IncompleteToolCall
)

# Error codes of an MCP request whose answer never came: closed, timed out, timed out before MCP's SDK 2.
_MCP_UNANSWERED: Final = frozenset({-32000, -32001, 408})


def innermost(agent: AbstractAgent[Any, Any]) -> Agent[Any, Any]:
    """The agent under every WrapperAgent.

    Raises:
        ValueError: it is an agent of another kind, of which nothing is known here.
    """
    inner = agent
    while isinstance(inner, WrapperAgent):
        inner = inner.wrapped
    if not isinstance(inner, Agent):
        raise ValueError(
            f"the agent is a {type(inner).__name__}; give an Agent, or a WrapperAgent around one"
        )
    return inner


def allows_deferred_tools(agent: AbstractAgent[Any, Any]) -> bool:
    """Whether the agent's own output type lists DeferredToolRequests."""
    return bool(innermost(agent)._output_schema.allows_deferred_tools)


def allow_deferred_tools(run: AgentRun[Any, Any]) -> None:
    """Let a run that has not begun end with DeferredToolRequests, whatever the agent's output type lists.

    Given to the run as an output type, the agent's own would be built anew: milliseconds for nested models.
    """
    schema = copy(run.ctx.deps.output_schema)
    schema.allows_deferred_tools = True
    run.ctx.deps.output_schema = schema


def go_on(
    run: AgentRun[Any, Any], *, prompt: str | Sequence[UserContent] | None, model_calls: int
) -> None:
    """Let a run that has not begun go on with a turn: code of the agent sees its prompt, and counts its steps.

    A run of tool results alone would have no ``prompt``, and begin with no step.
    """
    run.ctx.deps.prompt = prompt
    run.ctx.state.run_step = model_calls


def has_output_validators(agent: AbstractAgent[Any, Any]) -> bool:
    """Whether the agent checks its output with functions, which pin its output type."""
    return bool(innermost(agent)._output_validators)


def has_system_prompts(agent: AbstractAgent[Any, Any]) -> bool:
    """Whether the agent has system prompts, plain or by functions; instructions are none."""
    inner = innermost(agent)
    return bool(inner._system_prompts or inner._system_prompt_functions)


def static_prompts(agent: AbstractAgent[Any, Any]) -> list[str]:
    """The system prompts and instructions of the agent that are plain text, known without a run."""
    inner = innermost(agent)
    instructions = (sourced.instruction for sourced in inner._instructions)
    return [*inner._system_prompts, *(text for text in instructions if isinstance(text, str))]


def take_queued(ctx: RunContext[Any]) -> tuple[list[ModelMessage], list[str]]:
    """What waits in the run's queue for the next model request, taken out of it.

    That is the messages of ``ctx.enqueue``, and the IDs that ``ctx.load_capability`` was given.
    """
    queue = ctx.pending_messages
    if not isinstance(queue, PendingMessageQueue):
        return [], []
    messages = [message for pending in queue for message in pending.messages]
    queue.clear()
    loads = [
        part for part in queue.pop_capability_loads() if isinstance(part, CapabilityLoadDeltaPart)
    ]
    return messages, [capability_id for part in loads for capability_id in part.loaded]


@asynccontextmanager
async def open_stream(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> AsyncIterator[StreamedResponse]:
    """The stream of one model request inside a run, with the run's context and under the deadlines of streams.

    A run that does not stream leaves out the setting ``first_event_timeout``.
    """
    deadline = model._start_request_deadline(settings, stream=True)
    stream = model.request_stream(messages, settings, parameters, get_current_run_context())
    async with stream_under_deadline(deadline, stream) as opened:
        yield opened


def answers_deferred_calls(hooks: Hooks[Any]) -> bool:
    """Whether a function that answers deferred tool calls is among these hooks."""
    return bool(hooks._get("handle_deferred_tool_calls"))


def is_of_durable_execution(kind: type) -> bool:
    """Whether the class belongs to an engine that makes runs of Pydantic AI durable by itself."""
    return any(base.__module__.startswith(_DURABLE_PACKAGE) for base in kind.__mro__)


def ends_all_asking(error: Exception) -> bool:
    """Whether a run ended because it had asked the model as often, or used as much, as it may, or would ask in vain.

    Pydantic AI raises one type for that and for an answer that makes no sense; the last refusal of
    a tool or an output is its cause.
    """
    if isinstance(error, UsageLimitExceeded | ContentFilterError | _OUTPUT_CUT_OFF):
        return True
    return isinstance(error, UnexpectedModelBehavior) and isinstance(
        error.__cause__, ModelRetry | ToolRetryError | ValidationError
    )


def hides_unfinished_work(error: ModelRetry) -> bool:
    """Whether Pydantic AI made this ModelRetry of a call that it no longer waited for.

    That is a tool's own ``timeout``, or an MCP request without an answer. A tool that raises a
    ModelRetry of its own, even about a timeout, is not meant.
    """
    if isinstance(error.__context__, TimeoutError):
        return _OWN_TIMEOUT.fullmatch(error.message) is not None
    return any(_is_unanswered_mcp_request(cause) for cause in _leaves(error.__cause__))


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [] if error is None else [error]


def _is_unanswered_mcp_request(error: BaseException) -> bool:
    """MCP errors are told by their shape: the package that defines them is an extra."""
    code = getattr(getattr(error, "error", None), "code", None)
    return code in _MCP_UNANSWERED
