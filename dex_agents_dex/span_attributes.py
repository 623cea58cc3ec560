"""What spans say of model calls and tool calls, in the words of OpenTelemetry's GenAI conventions. Data only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from dex_agents_model.effects import (
    CallModel,
    DeferredToolCall,
    Effect,
    ExecuteTool,
    HistorySummarized,
    ModelCallMetadata,
    Outcome,
    Summarize,
    ToolCallsRequested,
    ToolRaised,
    ToolReturned,
    TurnCompleted,
    TurnGivenUp,
)
from dex_agents_model.records import AgentMessage, AgentUsage, FrameworkMessage, MessageRole

Attributes: TypeAlias = dict[str, str | int | tuple[str, ...]]
REQUEST_MODEL: Final = "gen_ai.request.model"
_Said: TypeAlias = dict[str, object]


def attributes_of_effect(effect: CallModel | Summarize | ExecuteTool) -> Attributes:
    """What is known before the call, without any content."""
    match effect:
        case CallModel() | Summarize():
            return {"gen_ai.operation.name": "chat"}
        case ExecuteTool(record):
            return {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": record.tool_name,
                "gen_ai.tool.call.id": record.tool_call_id,
                "gen_ai.tool.type": "function",
            }


def attributes_of_outcome(outcome: Outcome) -> Attributes:
    """What is known after the call, without any content."""
    match outcome:
        case TurnCompleted() | ToolCallsRequested() | TurnGivenUp() | HistorySummarized():
            return {
                **attributes_of_usage(outcome.usage),
                **_metadata(outcome.metadata or ModelCallMetadata()),
            }
        case _:
            return {}


def content_of_effect(effect: Effect) -> Attributes:
    """What the model is told, or a tool's arguments."""
    match effect:
        case CallModel():
            before = () if effect.summary is None else (_spoken(MessageRole.USER, effect.summary),)
            steered = (_spoken(MessageRole.USER, said.text) for said in effect.steering_messages)
            return _messages("input", (*before, *_texts(effect.messages), *steered))
        case Summarize(messages=messages, previous_summary=previous):
            before = () if previous is None else (_spoken(MessageRole.USER, previous),)
            return _messages("input", (*before, *_texts(messages)))
        case ExecuteTool(record):
            return {"gen_ai.tool.call.arguments": record.arguments}
        case _:
            return {}


def content_of_outcome(outcome: Outcome) -> Attributes:
    """What the model answered, or a tool's result."""
    match outcome:
        case TurnCompleted(new_messages):
            return _messages("output", tuple(_texts(new_messages))[-1:])
        case ToolCallsRequested(tool_calls=calls):
            return _messages("output", (_asked(calls),))
        case HistorySummarized(text):
            return _messages("output", (_spoken(MessageRole.ASSISTANT, text),))
        case ToolReturned(output):
            return {"gen_ai.tool.call.result": output}
        case ToolRaised(message):
            return {"gen_ai.tool.call.result": message}
        case _:
            return {}


def attributes_of_usage(usage: AgentUsage) -> Attributes:
    """What a provider counted, of an answer or of an attempt that failed."""
    return {
        "dex.usage.requests": usage.requests,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _metadata(known: ModelCallMetadata) -> Attributes:
    named = {
        REQUEST_MODEL: known.request_model,
        "gen_ai.response.model": known.response_model,
        "gen_ai.provider.name": known.provider,
        "gen_ai.response.id": known.response_id,
        "gen_ai.response.finish_reasons": known.finish_reason and (known.finish_reason,),
    }
    return {name: value for name, value in named.items() if value is not None}


def _messages(direction: str, said: tuple[_Said, ...]) -> Attributes:
    return {f"gen_ai.{direction}.messages": json.dumps(said, ensure_ascii=False)}


def _texts(messages: Iterable[AgentMessage | FrameworkMessage]) -> Iterable[_Said]:
    return (_spoken(m.role, m.text) for m in messages if m.text is not None)


def _spoken(role: MessageRole, text: str) -> _Said:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _asked(calls: tuple[DeferredToolCall, ...]) -> _Said:
    parts = [
        {"type": "tool_call", "id": c.tool_call_id, "name": c.tool_name, "arguments": c.arguments}
        for c in calls
    ]
    return {"role": MessageRole.ASSISTANT, "parts": parts}
