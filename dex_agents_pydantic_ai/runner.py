"""The runner contract for an agent of Pydantic AI. Between calls it keeps only what saves work, and what it warned of.

How a model call and a tool call are made is in `model_step` and `tool_step`; no rule of the
session may live in this package.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar, cast

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.models import KnownModelName, Model
from pydantic_ai.tools import ToolDefinition

from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    FrameworkMessage,
    HistorySummarized,
    SessionId,
    SummaryRequest,
    ToolExecutionResult,
    ToolNotStarted,
    UnfinishedTurn,
)

from . import compaction, history, user_message
from .deferral import ModelStepCapability
from .errors import ModelStepFailed, describe
from .lending import LentHistories
from .model_step import ModelStep
from .refusals import refuse_unsuitable
from .resume import answered_messages
from .step_capability import NamedModels
from .tool_step import ToolStep

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")
DepsFactory: TypeAlias = Callable[[str], DepsT | Awaitable[DepsT]]
"""Builds an agent's dependencies from the session's ID."""
AgentModel: TypeAlias = Model | KnownModelName | str
"""A model of Pydantic AI, or its name."""

_LOG: Final = logging.getLogger(__name__)
# Pydantic AI takes this conversation ID for "make one up". No session ID holds a colon.
_MAGIC_CONVERSATION_ID: Final = "new"
_STAND_IN_CONVERSATION_ID: Final = "session:new"


class PydanticAIRunner(Generic[DepsT, OutputT]):
    """Runs an agent one model call and one tool call at a time.

    Args:
        agent: An Agent, or a WrapperAgent around one. It is not changed.
        deps_factory: Builds the agent's dependencies from the session ID. Called before every model
            call and every tool call, so often in one session, in parallel, and again after a crash.
        model: Used in place of the agent's own.
        summary_model: Summarises earlier turns; the model of the turns does when it is left out.
        allow_missing_tools: Whether a tool policy may name a tool that the agent does not list.

    Raises:
        ValueError: the agent cannot work in a session; the message says why, and the remedy.
    """

    def __init__(
        self,
        agent: AbstractAgent[DepsT, OutputT],
        *,
        deps_factory: DepsFactory[DepsT] | None = None,
        model: AgentModel | None = None,
        summary_model: AgentModel | None = None,
        allow_missing_tools: bool = False,
    ) -> None:
        refuse_unsuitable(agent)
        self._agent = agent
        self._deps_factory = deps_factory
        self._model = model
        self._summary_model = summary_model
        self._warns_of_missing_tools = not allow_missing_tools
        self._warned_of: set[str] = set()
        self._histories = LentHistories()
        self._models = NamedModels()

    def build_user_message(self, text: str) -> FrameworkMessage:
        return user_message.build_user_message(text)

    def build_user_message_with_content(
        self, text: str, framework_content: str
    ) -> FrameworkMessage:
        return user_message.build_user_message(text, framework_content)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        model, deps = await self._equipment(turn.flow_id, ModelStepFailed)
        capability = ModelStepCapability[DepsT](turn.events, named_models=self._named_models())
        step = ModelStep(self._agent, model, deps, _conversation_id(turn.flow_id), self._histories)
        outcome = await step.run(turn, capability)
        self._warn_of_missing_tools(turn.options.tool_policies, capability.listed)
        self._warn_of_sequential_tools(capability.listed)
        return outcome

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        model, deps = await self._equipment(call.flow_id, ToolNotStarted)
        conversation_id = _conversation_id(call.flow_id)
        step = ToolStep(self._agent, model, deps, conversation_id, self._named_models())
        return await step.run(call)

    def build_unfinished_turn_messages(
        self, turn: UnfinishedTurn
    ) -> tuple[FrameworkMessage, ...] | None:
        """The turn's items up to the results of its latest tool calls; None when it has no readable ones."""
        try:
            state = history.RunState.from_json(turn.framework_run_state)
            return history.turn_to_stored(answered_messages(state, turn.tool_calls))
        except ModelStepFailed:
            return None

    async def summarize_history(self, request: SummaryRequest) -> HistorySummarized:
        """A summary in plain words, made without the agent's instructions and tools."""
        model = self._summary_model or self._model or self._agent.model
        return await compaction.summarize(self._once_built(model), request)

    def estimate_overhead_tokens(self) -> int:
        return compaction.estimate_overhead_tokens(self._agent)

    async def _equipment(
        self, session: SessionId, failed: type[ModelStepFailed | ToolNotStarted]
    ) -> tuple[AgentModel | None, DepsT]:
        """What a Step runs the agent with."""
        try:
            deps = await self._deps(session)
        except Exception as error:
            raise failed(f"deps_factory raised {describe(error)}") from error
        try:
            return self._once_built(self._model), deps
        except Exception as error:
            raise failed(f"there is no model {self._model}: {describe(error)}") from error

    def _once_built(self, model: AgentModel | None) -> AgentModel | None:
        """A model that is given by its name, built once for all Steps."""
        named_models = self._named_models()
        if not isinstance(model, str) or named_models is None:
            return model
        return named_models.build(model)

    def _named_models(self) -> NamedModels | None:
        """None for an agent with a capability that resolves names by itself: that is asked in every run."""
        return None if self._agent.root_capability.has_resolve_model_id else self._models

    async def _deps(self, session: SessionId) -> DepsT:
        if self._deps_factory is None:
            # As in a plain run of the agent: no dependencies are None, whatever their type.
            return cast(DepsT, None)
        deps = self._deps_factory(session)
        return await deps if inspect.isawaitable(deps) else deps

    def _warn_of_missing_tools(
        self, policies: Mapping[str, object], listed: Mapping[str, object]
    ) -> None:
        """Said at the first listing only: later ones may hide tools on purpose."""
        if not self._warns_of_missing_tools:
            return
        self._warns_of_missing_tools = False
        for name in sorted(set(policies) - set(listed)):
            _LOG.warning(
                "tool_policies names %r, which the agent does not list; it lists %s",
                name,
                ", ".join(sorted(listed)) or "no tools",
            )

    def _warn_of_sequential_tools(self, listed: Mapping[str, ToolDefinition]) -> None:
        """Said once of each: in a session their calls wait for no others."""
        sequential = {name for name, definition in listed.items() if definition.sequential}
        for name in sorted(sequential - self._warned_of):
            _LOG.warning(
                "the tool %r is sequential, but in a session the calls of one answer run side by side:"
                " set parallel_tool_calls=False in the model's settings, or let the tool take a lock",
                name,
            )
        self._warned_of |= sequential


def _conversation_id(session: SessionId) -> str:
    return _STAND_IN_CONVERSATION_ID if session == _MAGIC_CONVERSATION_ID else session
