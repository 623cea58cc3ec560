"""One model call of a turn: runs the agent until the model has answered. Runs no tool, keeps nothing.

Everything comes from the turn's committed state, so a retry gives the model the same input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from attrs import frozen
from pydantic_ai import DeferredToolRequests
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import ReinjectSystemPrompt
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import KnownModelName, Model
from pydantic_ai.tools import ToolDefinition

from dex_agents_model import (
    AgentMessage,
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolCall,
    MessageRole,
    ToolCallsRequested,
    ToolPolicy,
    TurnCompleted,
    TurnGivenUp,
)

from . import private
from .compaction import summary_message
from .deferral import DeferringAgent, ModelStepCapability, effect_hint
from .errors import ModelStepFailed, describe
from .history import (
    RunState,
    tool_calls_of,
    turn_to_stored,
    user_prompt,
    with_words_apart,
)
from .input_size import estimated_tokens
from .lending import LentHistories
from .providers import describe_model_calls
from .resume import answered_messages, deferred_results, shown_to_model, with_full_results
from .tool_step import memo_of
from .turn_output import output_of
from .usage import failure_of, usage_of

# One of its own: under its default ID this copy would replace the agent's own.
_REINJECT_ID: Final = "dex_reinject_system_prompt"


@frozen
class ModelStep:
    """An agent, and what one model call of a turn runs it with."""

    agent: AbstractAgent[Any, Any]
    model: Model | KnownModelName | str | None
    deps: Any
    conversation_id: str
    histories: LentHistories

    async def run(
        self, turn: AgentTurnContext, capability: ModelStepCapability[Any]
    ) -> AgentTurnOutcome:
        """Make the call. ``capability`` notes what the run did.

        Raises:
            ModelStepFailed: the call failed, or its answer breaks a rule of the session.
        """
        try:
            return await self._call(turn, capability)
        except Exception as error:
            if private.ends_all_asking(error):
                metadata = describe_model_calls(capability.model_calls)
                return TurnGivenUp(describe(error), usage_of(capability.used), metadata)
            raise failure_of(error, capability.used, doing="the model call") from error

    async def _call(
        self, turn: AgentTurnContext, capability: ModelStepCapability[Any]
    ) -> TurnCompleted | ToolCallsRequested:
        user_message = _message_of_user(turn)
        state = None
        results = None
        if turn.framework_run_state is not None:
            state = RunState.from_json(turn.framework_run_state)
            results, capability.to_deliver = deferred_results(
                state, turn.tool_calls, turn.shortened_results
            )
        asked = user_prompt(user_message)
        prompt = _said_meanwhile(turn) if state else asked
        before = () if state is None else state.messages
        capability.taken_ids = {call.tool_call_id for call in tool_calls_of(before)}
        with self.histories.lend(turn.flow_id, turn.messages[:-1]) as earlier:
            history = [
                *([] if turn.summary is None else [summary_message(turn.summary)]),
                *earlier,
                *shown_to_model(before, turn.shortened_results),
            ]
            model_calls = sum(isinstance(message, ModelResponse) for message in before)
            result = await DeferringAgent(self.agent, asked, model_calls).run(
                prompt,
                message_history=history or None,
                deferred_tool_results=results,
                model=self.model,
                deps=self.deps,
                usage=capability.used,
                conversation_id=self.conversation_id,
                infer_name=False,
                capabilities=[capability, *_reinjection(self.agent)],
            )
        new = result.new_messages() or _answered_by_a_hook(result.output, prompt, state, turn)
        new = with_full_results(new, turn.tool_calls, turn.shortened_results)
        if state is not None and prompt is not None:
            new = with_words_apart(new, prompt)
        output = result.output
        calls = output.calls if isinstance(output, DeferredToolRequests) else []
        resumed = state.call_ids if state else ()
        settled = {*resumed, *capability.output_call_ids, *capability.refused_call_ids}
        _check_answers(new, calls, settled)
        messages = (*before, *new)
        usage = usage_of(capability.used)
        metadata = describe_model_calls(capability.model_calls)
        if not calls:
            return TurnCompleted(turn_to_stored(messages), usage, metadata, output_of(output, new))
        call_ids = tuple(call.tool_call_id for call in calls)
        run_state = RunState(messages, call_ids, capability.queued).to_json()
        return ToolCallsRequested(
            run_state,
            tuple(_deferred(call, capability, turn) for call in calls),
            usage,
            metadata,
            estimated_tokens(messages, run_state),
        )


def _reinjection(agent: AbstractAgent[Any, Any]) -> list[ReinjectSystemPrompt[Any]]:
    """Puts the agent's system prompts back where no stored message holds them, such as after a failed first turn."""
    return [ReinjectSystemPrompt(id=_REINJECT_ID)] if private.has_system_prompts(agent) else []


def _answered_by_a_hook(
    output: object,
    prompt: str | Sequence[UserContent] | None,
    state: RunState | None,
    turn: AgentTurnContext,
) -> list[ModelMessage]:
    """What a run would have said whose capability has ended it in place of the model, after an error or at once."""
    kept = answered_messages(state, turn.tool_calls)[len(state.messages) :] if state else ()
    answer = output if isinstance(output, str) else output_of(output, ())
    return [
        *kept,
        *([] if prompt is None else [ModelRequest([UserPromptPart(prompt)])]),
        ModelResponse([TextPart(answer or "")]),
    ]


def _message_of_user(turn: AgentTurnContext) -> AgentMessage:
    last = turn.messages[-1] if turn.messages else None
    if last is None or last.turn_id != turn.turn_id or last.role is not MessageRole.USER:
        raise ModelStepFailed(f"{turn.turn_id} does not begin with a message of its user")
    return last


def _said_meanwhile(turn: AgentTurnContext) -> str | Sequence[UserContent] | None:
    """What stands beside the tools' results in the model's input."""
    prompts = [user_prompt(message) for message in turn.steering_messages]
    if len(prompts) == 1:
        return prompts[0]
    pieces = [[prompt] if isinstance(prompt, str) else prompt for prompt in prompts]
    return [piece for several in pieces for piece in several] or None


def _deferred(
    call: ToolCallPart, capability: ModelStepCapability[Any], turn: AgentTurnContext
) -> DeferredToolCall:
    return DeferredToolCall(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        arguments=_arguments(call),
        policy=_policy(capability.listed[call.tool_name], turn),
        framework_memo=memo_of(capability.loaded),
    )


def _arguments(call: ToolCallPart) -> str:
    """JSON text as the model wrote it; a model that writes none means no arguments."""
    return (call.args or "{}") if isinstance(call.args, str) else call.args_as_json_str()


def _policy(definition: ToolDefinition, turn: AgentTurnContext) -> ToolPolicy:
    """A tool that its own code declares as needing approval always waits for one."""
    policy = turn.resolve_tool_policy(definition.name, effect_hint(definition))
    if definition.kind == "unapproved":
        return attrs.evolve(policy, requires_approval=True)
    return policy


def _check_answers(
    new: Sequence[ModelMessage],
    pending: Sequence[ToolCallPart],
    settled: set[str],
) -> None:
    """Every call got its result from a Step of its own, or goes to one now. The ``settled`` ones need none.

    Raises:
        ModelStepFailed: something in the agent answered a call, or dropped one.
    """
    returns = [part for part in _request_parts(new) if isinstance(part, ToolReturnPart)]
    inline = sorted(
        part.tool_call_id
        for part in returns
        if part.tool_call_id not in settled and part.outcome != "retried"
    )
    if inline:
        raise ModelStepFailed(
            f"the agent answered the tool calls {inline} itself, so no Step ran them;"
            " remove the capability that answers deferred tool calls"
        )
    asked = {call.tool_call_id for call in tool_calls_of(new)}
    answered = {part.tool_call_id for part in returns}
    lost = sorted(asked - answered - settled - {call.tool_call_id for call in pending})
    if lost:
        raise ModelStepFailed(
            f"the agent went on without the results of the tool calls {lost};"
            " a hook that queues messages for the model may not do so beside tool calls"
        )


def _request_parts(messages: Sequence[ModelMessage]) -> list[object]:
    return [
        part for message in messages if isinstance(message, ModelRequest) for part in message.parts
    ]
