"""Runs one tool of an agent once, through the agent, and stops before any model call. Retries nothing.

The run's history is the tool call alone. What the tool did is told apart here; what that means for
the call's record is the model package's business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Final

from attrs import frozen
from pydantic import ValidationError
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolApproved,
)
from pydantic_ai.agent import AbstractAgent, ModelRequestNode
from pydantic_ai.capabilities import (
    AbstractCapability,
    AgentNode,
    CapabilityOrdering,
    NodeResult,
    WrapModelRequestHandler,
    WrapNodeRunHandler,
)
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    RunCancelled,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import KnownModelName, Model, ModelRequestContext
from pydantic_ai.result import FinalResult
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_graph import End

from dex_agents_model import DeferredToolExecution, ToolExecutionError, ToolExecutionResult

from . import private
from .deferral import AROUND_EVERYTHING
from .errors import ToolStepFailed, describe
from .model_step import step_output_type
from .tool_output import output_text

IDEMPOTENCY_KEY_METADATA_KEY: Final = "dex_idempotency_key"


def deferred_tool_idempotency_key(ctx: RunContext[object]) -> str | None:
    """The key of the tool call that ``ctx`` belongs to: ``<session ID>/<turn ID>/<tool call ID>``.

    It is the same on every attempt of the call. None in a run of the agent outside a session.
    """
    key = (ctx.metadata or {}).get(IDEMPOTENCY_KEY_METADATA_KEY)
    return key if isinstance(key, str) else None


@frozen
class ToolStep:
    """An agent, and what it runs one tool with."""

    agent: AbstractAgent[Any, Any]
    model: Model | KnownModelName | str | None
    deps: Any
    conversation_id: str

    async def run(self, execution: DeferredToolExecution) -> ToolExecutionResult:
        """Run the tool once.

        Raises:
            ToolExecutionError: the tool has said that it failed, or nothing ran.
            ToolStepFailed: anything else; its work may have happened.
        """
        record = execution.tool_call
        capability = ToolStepCapability[Any](
            ToolCallPart(record.tool_name, record.arguments, record.tool_call_id)
        )
        try:
            requests = await self._run_tool(execution, capability)
        except ToolExecutionError:
            raise
        except Exception as error:
            if capability.has_spent_its_retries(error):
                raise ToolExecutionError(describe_refusal(error.__cause__)) from error
            raise ToolStepFailed(_broke(record.tool_name, capability.cut_off or error)) from error
        if (cut_off := capability.cut_off) is not None and not capability.has_succeeded:
            raise ToolStepFailed(_broke(record.tool_name, cut_off)) from cut_off
        part = capability.part
        if part is None:
            raise _deferral(requests, capability, approved=record.call.requires_approval)
        if part.outcome != "success":
            raise ToolExecutionError(output_text(part))
        return ToolExecutionResult(output_text(part))

    async def _run_tool(
        self, execution: DeferredToolExecution, capability: ToolStepCapability[Any]
    ) -> DeferredToolRequests:
        call = capability.call
        # Only what a person has approved runs as approved: a tool that asks for approval while it
        # runs would otherwise get it from nobody.
        approved = execution.tool_call.call.requires_approval
        results = DeferredToolResults(approvals={call.tool_call_id: ToolApproved()})
        async with self.agent.iter(
            None,
            message_history=[ModelResponse(parts=[call])],
            deferred_tool_results=results if approved else None,
            model=self.model,
            deps=self.deps,
            output_type=step_output_type(self.agent),
            conversation_id=self.conversation_id,
            metadata={IDEMPOTENCY_KEY_METADATA_KEY: execution.idempotency_key},
            infer_name=False,
            capabilities=[capability],
        ) as run:
            node = run.next_node
            while not isinstance(node, End):
                node = await run.next(node)
        output: object = node.data.output
        if not isinstance(output, DeferredToolRequests):
            raise ToolStepFailed("the run of the tool ended with an answer of the agent")
        return output


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
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self.step.escaped = ToolStepFailed(
                "it raised CancelledError, though nobody cancelled it"
            )
            raise self.step.escaped from error
        except Exception as error:
            self.step.escaped = error
            # Pydantic AI makes results for the model of these by itself.
            if isinstance(error, RunCancelled | ValidationError):
                self.step.cut_off = error
            raise


@dataclass
class ToolStepCapability(AbstractCapability[AgentDepsT]):
    """Given to one run: ends it when the tool has its result, and notes how it got there."""

    call: ToolCallPart
    part: ToolReturnPart | None = None
    """The result that the model would see."""
    has_started: bool = False
    """Whether the tool's body was entered."""
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

    def get_ordering(self) -> CapabilityOrdering:
        return AROUND_EVERYTHING

    def get_wrapper_toolset(
        self, toolset: AbstractToolset[AgentDepsT]
    ) -> AbstractToolset[AgentDepsT]:
        return ToolStepToolset(toolset, self)

    async def wrap_node_run(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        node: AgentNode[AgentDepsT],
        handler: WrapNodeRunHandler[AgentDepsT],
    ) -> NodeResult[AgentDepsT]:
        """End the run where the tool's result would go to the model."""
        result = await handler(node)
        if not isinstance(result, ModelRequestNode):
            return result
        self.part = next(
            part
            for part in result.request.parts
            if isinstance(part, ToolReturnPart) and part.tool_call_id == self.call.tool_call_id
        )
        # With the request in the history, a message that the tool queued cannot start a model call.
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


def describe_refusal(cause: BaseException | None) -> str:
    """What Pydantic AI would have told the model."""
    return cause.message if isinstance(cause, ModelRetry) else str(cause)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _broke(tool_name: str, error: BaseException) -> str:
    if isinstance(error, ToolStepFailed):
        return f"tool {tool_name}: {error}"
    if isinstance(error, ModelRetry):
        return f"tool {tool_name} was cut off: {error.message}"
    return f"tool {tool_name} raised {describe(error)}"


def _deferral(
    requests: DeferredToolRequests, capability: ToolStepCapability[Any], *, approved: bool
) -> Exception:
    name = capability.call.tool_name
    if requests.approvals and approved:
        return ToolExecutionError(
            f"The tool {name} asked for approval again, after a person had given it."
        )
    if requests.approvals:
        return ToolExecutionError(
            f"The tool {name} asked for approval while it ran."
            " It needs a ToolPolicy with requires_approval=True."
        )
    if capability.has_started:
        return ToolStepFailed(f"tool {name} deferred its call to code outside the session")
    return ToolExecutionError(
        f"The tool {name} deferred its call to code outside the session. Nothing ran."
    )
