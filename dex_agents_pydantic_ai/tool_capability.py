"""What is given to the run of one tool: it ends the run before any model call, and notes what the tool did.

What that means is told in `tool_step`; nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.agent import ModelRequestNode
from pydantic_ai.capabilities import (
    AgentNode,
    NodeResult,
    RawToolArgs,
    ValidatedToolArgs,
    WrapModelRequestHandler,
    WrapNodeRunHandler,
    WrapRunHandler,
    WrapToolExecuteHandler,
    WrapToolValidateHandler,
)
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    RunCancelled,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.result import FinalResult
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_graph import End

from dex_agents_model import ToolExecutionError

from . import private
from .errors import ToolStepFailed, describe, ending_the_step_alone
from .queued import Queued
from .step_capability import StepCapability


class OwnerNotLoaded(ToolStepFailed):
    """The tool belongs to a capability that the model has loaded on demand, of which this run knows nothing."""

    def __init__(self, capability_id: str) -> None:
        super().__init__(f"the capability {capability_id} that owns the tool is not loaded")
        self.capability_id = capability_id


@dataclass
class ToolStepToolset(WrapperToolset[AgentDepsT]):
    """Shows the called tool as it is, and notes what leaves its body."""

    step: ToolStepCapability[AgentDepsT]

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        tools = await super().get_tools(ctx)
        name = self.step.call.tool_name
        tool = tools.get(name)
        if tool is None:
            return tools
        if tool.tool_def.kind == "external":
            raise ToolExecutionError(
                f"The tool {name} is an external tool: it has no function to run. Nothing ran."
            )
        owner = tool.tool_def.capability_id
        if owner is not None and owner not in ctx.active_capability_ids:
            raise OwnerNotLoaded(owner)
        # The model has found it by a tool search, of which this run knows nothing.
        revealed = replace(tool.tool_def, defer_loading=False, with_native=None)
        return {**tools, name: replace(tool, tool_def=revealed)}

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> Any:
        self.step.has_started = True
        try:
            return await super().call_tool(name, tool_args, ctx, tool)
        except (ToolFailed, ApprovalRequired, CallDeferred):
            raise
        except ModelRetry as error:
            if private.hides_unfinished_work(error):
                self.step.cut_off = error
            raise
        except Exception as error:
            self.step.escaped = error
            # Pydantic AI makes results for the model of these by itself.
            if isinstance(error, RunCancelled | ValidationError):
                self.step.cut_off = error
            raise
        except GeneratorExit:  # nobody waits for the call any more
            raise
        except BaseException as error:
            # From the task in which Pydantic AI runs a tool, SystemExit would end the Worker.
            if _is_cancelled():
                raise
            self.step.escaped = ToolStepFailed(_raised_by_itself(error))
            raise self.step.escaped from error


@dataclass
class ToolStepCapability(StepCapability[AgentDepsT]):
    """Given to one run: ends it when the tool has its result, and notes how it got there."""

    call: ToolCallPart
    loaded: Sequence[str] = ()
    """The capabilities on demand that the run's history shows as loaded."""
    part: ToolReturnPart | None = None
    """The result that the model would see."""
    beside: Sequence[object] = ()
    """The other parts of the request that holds it, such as what the tool says to the model."""
    queued: Queued = Queued()
    """What was queued for the model."""
    has_started: bool = False
    """Whether the tool's body was entered."""
    failure: Exception | None = None
    """What ended the run, before hooks made something else of it."""
    escaped: Exception | None = None
    """What left the tool's body, control flow aside."""
    cut_off: Exception | None = None
    """What left the body unfinished and looks like a plain result to everything outside it."""

    @property
    def has_succeeded(self) -> bool:
        return self.part is not None and self.part.outcome == "success"

    def has_spent_its_retries(self, error: Exception) -> bool:
        """Whether ``error`` is Pydantic AI's word that this tool, not an agent in its body, was refused too often."""
        return (
            isinstance(error, UnexpectedModelBehavior)
            and isinstance(error.__cause__, ModelRetry | ValidationError)
            and error is not self.escaped
            and self.cut_off is None
        )

    def get_wrapper_toolset(
        self, toolset: AbstractToolset[AgentDepsT]
    ) -> AbstractToolset[AgentDepsT]:
        return ToolStepToolset(toolset, self)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        with ending_the_step_alone(ToolStepFailed):
            return await handler()

    async def wrap_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: RawToolArgs,
        handler: WrapToolValidateHandler,
    ) -> ValidatedToolArgs:
        with ending_the_step_alone(ToolStepFailed):
            return await handler(args)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> object:
        with ending_the_step_alone(ToolStepFailed):
            return await handler(args)

    async def wrap_node_run(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        node: AgentNode[AgentDepsT],
        handler: WrapNodeRunHandler[AgentDepsT],
    ) -> NodeResult[AgentDepsT]:
        """End the run where the tool's result would go to the model."""
        with ending_the_step_alone(ToolStepFailed):
            result = await handler(node)
        if not isinstance(result, ModelRequestNode):
            return result
        self.part = next(
            part
            for part in result.request.parts
            if isinstance(part, ToolReturnPart) and part.tool_call_id == self.call.tool_call_id
        )
        self.beside = [part for part in result.request.parts if part is not self.part]
        self.queued = Queued.taken_from(ctx)
        # With the request in the history, a message that is queued later cannot start a model call.
        ctx.messages.append(result.request)
        return End(FinalResult(DeferredToolRequests()))

    async def wrap_model_request(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        raise ToolStepFailed("something in the agent calls the model where only a tool may run")


def _raised_by_itself(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it raised CancelledError, though nobody cancelled it"
    return f"it raised {describe(error)}"


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
