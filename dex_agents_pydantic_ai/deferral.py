"""Stops a run of an agent after one model call: every tool is deferred to a Step. Runs no tool and stores nothing.

One capability, given to a single run, marks each tool of that run as external. Pydantic AI then
ends the run with the calls that the model asked for, as a run of a `DeferringAgent` may.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import (
    AgentNode,
    NodeResult,
    RawToolArgs,
    ValidatedToolArgs,
    WrapModelRequestHandler,
    WrapNodeRunHandler,
    WrapRunHandler,
    WrapToolValidateHandler,
)
from pydantic_ai.exceptions import SkipModelRequest
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelResponse,
    ToolCallPart,
    UserContent,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.run import AgentRun, AgentRunResult
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_ai.usage import RunUsage
from pydantic_graph import End

from dex_agents_model import AgentEventWriter, ToolEffect
from dex_agents_model.text import is_json_object

from . import private
from .errors import ModelStepFailed, ending_the_step_alone
from .live_text import TellingModel, tell
from .providers import ModelCall
from .queued import Queued
from .received import as_received
from .step_capability import StepCapability


class DeferringAgent(WrapperAgent[AgentDepsT, Any]):
    """The agent, whose runs may end with deferred tool calls whatever its own output type is.

    They go on with the turn of ``prompt``, which has had ``model_calls`` already.
    """

    def __init__(
        self,
        wrapped: AbstractAgent[AgentDepsT, Any],
        prompt: str | Sequence[UserContent],
        model_calls: int,
    ) -> None:
        super().__init__(wrapped)
        self._prompt = prompt
        self._model_calls = model_calls

    @asynccontextmanager
    async def iter(self, *args: Any, **options: Any) -> AsyncIterator[AgentRun[AgentDepsT, Any]]:
        async with self.wrapped.iter(*args, **options) as run:
            private.allow_deferred_tools(run)
            if self._model_calls:
                private.go_on(run, prompt=self._prompt, model_calls=self._model_calls)
            yield run


@dataclass
class DeferringToolset(WrapperToolset[AgentDepsT]):
    """Lists every tool as external. ``listed`` collects the definitions as they were."""

    listed: dict[str, ToolDefinition]

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        tools = await super().get_tools(ctx)
        self.listed.update({name: tool.tool_def for name, tool in tools.items()})
        return {
            name: replace(tool, tool_def=replace(tool.tool_def, kind="external"))
            for name, tool in tools.items()
        }


@dataclass
class ModelStepCapability(StepCapability[AgentDepsT]):
    """Given to one run: defers its tools, tells watchers what streams, and notes what happened."""

    events: AgentEventWriter
    used: RunUsage = field(default_factory=RunUsage)
    """That of the run."""
    listed: dict[str, ToolDefinition] = field(default_factory=dict)
    """Each tool by the name that the model calls, as its toolset defined it."""
    model_calls: list[ModelCall] = field(default_factory=list)
    taken_ids: set[str] = field(default_factory=set)
    """Those of the tool calls of the turn."""
    output_call_ids: set[str] = field(default_factory=set)
    """Tool calls that are the model's final result."""
    refused_call_ids: set[str] = field(default_factory=set)
    """Tool calls in answers that a hook has refused: the model was asked again, and no Step runs them."""
    was_refused: bool = False
    """Whether the answer before was."""
    loaded: Sequence[str] = ()
    """The capabilities on demand that were loaded when the model answered last."""
    to_deliver: Queued = Queued()
    """What was queued before this run, for its first model request."""
    queued: Queued = Queued()
    """What hooks have queued beside tool calls, for the model request after them."""

    def get_wrapper_toolset(
        self, toolset: AbstractToolset[AgentDepsT]
    ) -> AbstractToolset[AgentDepsT]:
        return DeferringToolset(toolset, self.listed)

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """False, though it is overridden below: this capability alone is no reason for a run to stream."""
        return False

    def get_wrapper_model(self, model: Model) -> Model:
        return TellingModel(model, self.events, self.used)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        with ending_the_step_alone(ModelStepFailed):
            return await handler()

    async def before_run(self, ctx: RunContext[AgentDepsT]) -> None:
        self.to_deliver.put_into(ctx)

    async def wrap_node_run(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        node: AgentNode[AgentDepsT],
        handler: WrapNodeRunHandler[AgentDepsT],
    ) -> NodeResult[AgentDepsT]:
        """Keep what is queued from going to the model in place of the tools' results."""
        with ending_the_step_alone(ModelStepFailed):
            result = await handler(node)
        if isinstance(result, End) and isinstance(result.data.output, DeferredToolRequests):
            self.queued = Queued.taken_from(ctx)
        return result

    async def wrap_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: RawToolArgs,
        handler: WrapToolValidateHandler,
    ) -> ValidatedToolArgs:
        """Check the arguments against the tool's schema alone: hooks belong to the Step that runs the tool."""
        manager = ctx.tool_manager
        assert manager is not None, "a call is validated inside a run"
        assert manager.tools is not None, "a call is validated after its tools were listed"
        validator = manager.tools[call.tool_name].args_validator
        validated: ValidatedToolArgs = (
            validator.validate_json(args or "{}", context=ctx.validation_context)
            if isinstance(args, str)
            else validator.validate_python(args, context=ctx.validation_context)
        )
        if isinstance(args, str) and not is_json_object(args or "{}"):  # the tool has no schema
            raise ModelRetry("The arguments of a tool call must be a JSON object.")
        return validated

    async def wrap_model_request(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        if self.was_refused:
            self._note_refused(request_context.messages)
        try:
            with ending_the_step_alone(ModelStepFailed):
                response = self._received(ctx, await handler(request_context))
        except SkipModelRequest as skip:
            response = self._received(ctx, skip.response)
            raise SkipModelRequest(response) from skip
        except ModelRetry:
            self.was_refused = True
            raise
        self.loaded = sorted(ctx.loaded_capability_ids)
        self.model_calls.append(ModelCall(request_context.model.model_name, response))
        return response

    def _note_refused(self, messages: Sequence[ModelMessage]) -> None:
        """It stands in the history as it came, for the model to see what was refused."""
        self.was_refused = False
        last = next((each for each in reversed(messages) if isinstance(each, ModelResponse)), None)
        if last is not None:
            refused = {call.tool_call_id for call in last.tool_calls}
            self.refused_call_ids |= refused
            self.taken_ids |= refused

    def _received(self, ctx: RunContext[AgentDepsT], response: ModelResponse) -> ModelResponse:
        return self._without_early_result(ctx, as_received(response, self.taken_ids))

    def _without_early_result(
        self, ctx: RunContext[AgentDepsT], response: ModelResponse
    ) -> ModelResponse:
        """Drop a final result that stands beside tool calls: it was made without their results."""
        manager = ctx.tool_manager
        assert manager is not None, "a model is called inside a run"
        kinds = {
            call.tool_call_id: definition.kind
            for call in response.tool_calls
            if (definition := manager.get_tool_def(call.tool_name)) is not None
        }
        output_ids = {call_id for call_id, kind in kinds.items() if kind == "output"}
        self.output_call_ids |= output_ids
        if "external" not in kinds.values() or not output_ids:
            return response
        return replace(
            response,
            parts=[
                part
                for part in response.parts
                if not (isinstance(part, ToolCallPart) and part.tool_call_id in output_ids)
            ],
        )

    async def wrap_run_event_stream(
        self, ctx: RunContext[AgentDepsT], *, stream: AsyncIterable[AgentStreamEvent]
    ) -> AsyncIterable[AgentStreamEvent]:
        """Tell watchers what a run says that streams for another capability."""
        try:
            async for event in stream:
                tell(event, self.events)
                yield event
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()


def effect_hint(definition: ToolDefinition) -> ToolEffect | None:
    """What the tool's definition says of its effect: MCP annotations, or a search that Pydantic AI runs itself."""
    if definition.tool_kind in ("tool-search", "capability-load"):
        return ToolEffect.READ
    metadata: dict[str, Any] = definition.metadata or {}
    annotations: dict[str, Any] = metadata.get("annotations") or {}
    if annotations.get("readOnlyHint"):
        return ToolEffect.READ
    if annotations.get("idempotentHint"):
        return ToolEffect.IDEMPOTENT_WRITE
    return None
