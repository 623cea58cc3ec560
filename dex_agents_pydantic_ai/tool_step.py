"""Runs one tool of an agent once, through the agent, and stops before any model call. Retries nothing.

The run's history is the tool call alone. What the tool did is told apart here; what that means for
the call's record is the model package's business.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from attrs import frozen
from pydantic_ai import (
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    ToolApproved,
)
from pydantic_ai.agent import AbstractAgent, CallToolsNode
from pydantic_ai.capabilities import NodeResult
from pydantic_ai.messages import (
    CapabilityLoadDeltaPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
)
from pydantic_ai.models import KnownModelName, Model
from pydantic_ai.output import OutputSpec
from pydantic_graph import End

from dex_agents_model import (
    DeferredToolExecution,
    ToolExecutionError,
    ToolExecutionResult,
    ToolNotStarted,
    ToolOutcomeUnknown,
)
from dex_agents_model.calls import RequestedToolCall

from . import private
from .errors import ToolStepFailed, describe
from .step_capability import NamedModels
from .tool_capability import OwnerNotLoaded, ToolStepCapability
from .tool_content import execution_result
from .tool_output import output_text

IDEMPOTENCY_KEY_METADATA_KEY: Final = "dex_idempotency_key"
"""Where a tool's ``RunContext.metadata`` has the key; see `deferred_tool_idempotency_key`."""


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
    named_models: NamedModels | None

    async def run(self, execution: DeferredToolExecution) -> ToolExecutionResult:
        """Run the tool once.

        Raises:
            ToolExecutionError: the tool has said that it failed, or nothing ran.
            ToolOutcomeUnknown: the tool has left its work to code outside the session.
            ToolNotStarted: something that the agent needs, such as a toolset, could not be reached.
            ToolStepFailed: anything else; its work may have happened.
        """
        record = execution.tool_call
        call = ToolCallPart(record.tool_name, record.arguments, record.tool_call_id)
        loaded = _loaded(record.call)
        try:
            return await self._attempt(execution, self._capability(call, loaded))
        except OwnerNotLoaded as owner:
            # Nothing has run. A newer definition of the agent gives the tool on demand alone.
            loaded = (*loaded, owner.capability_id)
            return await self._attempt(execution, self._capability(call, loaded))

    def _capability(self, call: ToolCallPart, loaded: Sequence[str]) -> ToolStepCapability[Any]:
        return ToolStepCapability(call, loaded, named_models=self.named_models)

    async def _attempt(
        self, execution: DeferredToolExecution, capability: ToolStepCapability[Any]
    ) -> ToolExecutionResult:
        record = execution.tool_call
        try:
            requests = await self._run_tool(execution, capability)
        except (ToolExecutionError, ToolNotStarted, OwnerNotLoaded):
            raise
        except Exception as error:
            if capability.has_spent_its_retries(error):
                raise ToolExecutionError(_refusal(error.__cause__)) from error
            raise ToolStepFailed(_broke(record.tool_name, capability.cut_off or error)) from error
        if (cut_off := capability.cut_off) is not None and not capability.has_succeeded:
            raise ToolStepFailed(_broke(record.tool_name, cut_off)) from cut_off
        part = capability.part
        if part is None:
            raise _deferral(requests, capability, approved=record.call.requires_approval)
        if part.outcome != "success":
            raise ToolExecutionError(output_text(part))
        return execution_result(part, capability.beside, capability.queued)

    async def _run_tool(
        self, execution: DeferredToolExecution, capability: ToolStepCapability[Any]
    ) -> DeferredToolRequests:
        """Raises what ended the run as it was, whatever hooks have made of it."""
        try:
            return await self._run(execution, capability)
        except Exception:
            if (failure := capability.failure) is None:
                raise
            raise failure from failure.__cause__

    async def _run(
        self, execution: DeferredToolExecution, capability: ToolStepCapability[Any]
    ) -> DeferredToolRequests:
        call = ModelResponse(parts=[capability.call])
        # Only what a person has approved runs as approved: a tool that asks for approval while it
        # runs would otherwise get it from nobody.
        approved = execution.tool_call.call.requires_approval
        async with AsyncExitStack() as running:
            iteration = self.agent.iter(
                None,
                message_history=_history(call, capability.loaded),
                model=self.model,
                deps=self.deps,
                output_type=_output_type(self.agent),
                conversation_id=self.conversation_id,
                metadata={IDEMPOTENCY_KEY_METADATA_KEY: execution.idempotency_key},
                infer_name=False,
                capabilities=[capability],
            )
            try:
                run = await running.enter_async_context(iteration)
            except (ToolExecutionError, OwnerNotLoaded):
                raise
            except Exception as error:
                raise ToolNotStarted(_broke(capability.call.tool_name, error)) from error
            private.go_on(run, prompt=None, model_calls=execution.tool_call.call.model_call)
            # The run begins where tools are called: what comes before that prepares a prompt.
            node: NodeResult[Any] = CallToolsNode(
                call,
                tool_call_results={capability.call.tool_call_id: ToolApproved()}
                if approved
                else None,
            )
            try:
                while not isinstance(node, End):
                    node = await run.next(node)
            except Exception as error:
                capability.failure = error
                raise
        # A hook may have an answer in its place; a tool's Step needs none.
        if capability.failure is not None:
            raise capability.failure
        output: object = node.data.output
        if not isinstance(output, DeferredToolRequests):
            raise ToolStepFailed("the run of the tool ended with an answer of the agent")
        return output


def _history(call: ModelResponse, loaded: Sequence[str]) -> list[ModelMessage]:
    """The call alone, behind the capabilities on demand that were loaded: their hooks guard every tool."""
    if not loaded:
        return [call]
    return [ModelRequest(parts=[CapabilityLoadDeltaPart(loaded=list(loaded))]), call]


def memo_of(loaded: Sequence[str]) -> str | None:
    """What a tool's Step has to know of the model call that asked for it."""
    return json.dumps({"loaded": list(loaded)}) if loaded else None


def _loaded(call: RequestedToolCall) -> tuple[str, ...]:
    return () if call.framework_memo is None else tuple(json.loads(call.framework_memo)["loaded"])


def _output_type(agent: AbstractAgent[Any, Any]) -> Any:
    """Any that can end with deferred calls will do: this run asks for no answer of the agent.

    Text costs nothing to build, unlike the schemas of the agent's own output type.
    """
    if private.allows_deferred_tools(agent):
        return None
    widened: OutputSpec[Any] = [str, DeferredToolRequests]
    return widened


def _refusal(cause: BaseException | None) -> str:
    """What Pydantic AI would have told the model."""
    return cause.message if isinstance(cause, ModelRetry) else str(cause)


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
        return ToolOutcomeUnknown(
            f"The tool {name} deferred its call to code outside the session, whose result never comes."
        )
    return ToolExecutionError(
        f"The tool {name} deferred its call to code outside the session. Nothing ran."
    )
