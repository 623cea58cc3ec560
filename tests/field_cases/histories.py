"""What a stored or a sent history says of its tool calls, and whether a strict provider would take it."""

from __future__ import annotations

import json
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
    """Each call without exactly one result right behind it, and each result without a call.

    And each call whose arguments cannot be sent as an object. Requests that follow each other are
    one, as they are for providers.
    """
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            faults += [f"{call} has no result" for call in waiting]
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            faults += [f"{c.tool_call_id} has no object" for c in calls if not _has_an_object(c)]
            waiting = [call.tool_call_id for call in calls]
            continue
        for part in message.parts:
            if not isinstance(part, ToolReturnPart):
                faults += [f"{call} has no result right behind it" for call in waiting]
                waiting = []
            elif part.tool_call_id in waiting:
                waiting.remove(part.tool_call_id)
            else:
                faults.append(f"{part.tool_call_id} has a result and no call right before it")
    return faults + [f"{call} has no result" for call in waiting]


def _has_an_object(call: ToolCallPart) -> bool:
    """Whether a provider that wants an object for the arguments can be sent one, in strict JSON."""
    try:
        json.dumps(call.args_as_dict(), allow_nan=False)
    except ValueError:
        return False
    return True


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
