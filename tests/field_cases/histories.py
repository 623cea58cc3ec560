"""What a stored or a sent history says of its tool calls, and whether a strict provider would take it."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from dex_agents_model import AgentMessage


def faults_of(messages: Iterable[ModelMessage]) -> list[str]:
    """Each call without exactly one result in the request right behind it, and each result without a call."""
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            faults += [f"{call} has no result" for call in waiting]
            waiting = [p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)]
            continue
        for part in message.parts:
            if not isinstance(part, ToolReturnPart):
                continue
            if part.tool_call_id in waiting:
                waiting.remove(part.tool_call_id)
            else:
                faults.append(f"{part.tool_call_id} has a result and no call right before it")
        faults += [f"{call} has no result right behind it" for call in waiting]
        waiting = []
    return faults + [f"{call} has no result" for call in waiting]


def loaded(messages: Iterable[AgentMessage]) -> list[ModelMessage]:
    """Stored messages, as Pydantic AI reads them."""
    return [
        message
        for stored in messages
        for message in ModelMessagesTypeAdapter.validate_json(stored.framework_item)
    ]


def results_of(messages: Iterable[ModelMessage]) -> dict[str, str]:
    """What a model is told of each call, by its ID: ``<outcome>: <text>``."""
    return {
        part.tool_call_id: f"{part.outcome}: {part.model_response_str(wrap_if_error=False)}"
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }


def timeline(messages: Iterable[ModelMessage]) -> list[str]:
    """What a model is told, in order: each text of the user, and for each tool result the ID of its call."""
    told: list[str] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                told.append(part.tool_call_id)
            elif isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                told += [text for text in content if isinstance(text, str)]
    return told
