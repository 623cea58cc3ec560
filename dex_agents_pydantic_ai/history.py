"""Pydantic AI's messages as a session stores them, and back. What a model is told is not decided here.

A stored item is a JSON array of one message, as ModelMessagesTypeAdapter writes it. Its text is
valid UTF-8, and byte-exact apart from what `cleaning` replaces.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import frozen
from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from dex_agents_model import AgentMessage, FrameworkMessage, MessageRole
from dex_agents_model.text import clean_text

from .cleaning import clean_dumped_messages
from .errors import ModelStepFailed


@frozen
class RunState:
    """What goes on with a turn after its tools: the turn's messages so far, and the calls that wait.

    ``messages`` begins with the request that holds the user's prompt. ``call_ids`` are those of the
    latest response, in model order.
    """

    messages: tuple[ModelMessage, ...]
    call_ids: tuple[str, ...]

    def to_json(self) -> str:
        return f'{{"messages":{_dump(self.messages)},"calls":{json.dumps(self.call_ids)}}}'

    @classmethod
    def from_json(cls, text: str) -> RunState:
        """Read what `to_json` wrote.

        Raises:
            ModelStepFailed: it did not.
        """
        try:
            state = _RUN_STATE.validate_json(text)
        except ValueError as error:
            raise ModelStepFailed(f"the run state of the turn cannot be read: {error}") from error
        return cls(messages=tuple(state["messages"]), call_ids=tuple(state["calls"]))


class _RunStateJson(TypedDict):
    __pydantic_config__ = ConfigDict(val_json_bytes="base64")  # type: ignore[misc]  # pydantic reads it

    messages: list[ModelMessage]
    calls: list[str]


_RUN_STATE: TypeAdapter[_RunStateJson] = TypeAdapter(_RunStateJson)


def build_user_message(text: str) -> FrameworkMessage:
    """``text`` as a user's message. The item has no timestamp: the same text gives the same item."""
    text = clean_text(text)
    item = [{"parts": [{"content": text, "part_kind": "user-prompt"}], "kind": "request"}]
    return FrameworkMessage(
        role=MessageRole.USER, framework_item=json.dumps(item, ensure_ascii=False), text=text
    )


def to_stored(message: ModelMessage) -> FrameworkMessage:
    """One message with its display fields."""
    item = _dump([message])
    if isinstance(message, ModelResponse):
        calls = message.tool_calls
        only_call = calls[0] if len(calls) == 1 else None
        return FrameworkMessage(
            role=MessageRole.ASSISTANT,
            framework_item=item,
            text=None if message.text is None else clean_text(message.text),
            tool_call_id=None if only_call is None else only_call.tool_call_id,
            tool_name=None if only_call is None else only_call.tool_name,
        )
    returns = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    only_return = returns[0] if len(returns) == 1 else None
    return FrameworkMessage(
        role=MessageRole.TOOL if returns else MessageRole.USER,
        framework_item=item,
        tool_call_id=None if only_return is None else only_return.tool_call_id,
        tool_name=None if only_return is None else only_return.tool_name,
    )


def turn_to_stored(messages: Sequence[ModelMessage]) -> tuple[FrameworkMessage, ...]:
    """A completed turn as stored messages, without what the session has stored already.

    The opening request is left out when it holds the user's prompt and nothing else.
    """
    opening = messages[0] if messages else None
    repeats_user_message = (
        isinstance(opening, ModelRequest)
        and len(opening.parts) == 1
        and isinstance(opening.parts[0], UserPromptPart)
    )
    return tuple(to_stored(message) for message in messages[repeats_user_message:])


def earlier_turns(messages: Sequence[AgentMessage]) -> list[ModelMessage]:
    """What the model is replayed of the turns before. ``messages`` are theirs alone, in order."""
    replayed: list[ModelMessage] = []
    for index, message in enumerate(messages):
        following = messages[index + 1] if index + 1 < len(messages) else None
        if following is not None and _opens_turn_of(message, following):
            continue
        replayed.append(from_stored(message))
    return replayed


def _opens_turn_of(user_message: AgentMessage, following: AgentMessage) -> bool:
    """Whether ``following`` is the opening request that holds ``user_message`` and more."""
    return (
        user_message.role is following.role is MessageRole.USER
        and user_message.turn_id == following.turn_id
        and user_message.text is not None
        and following.text is None
    )


def from_stored(message: AgentMessage) -> ModelMessage:
    """The message that was stored.

    Raises:
        ModelStepFailed: its item is not one message of Pydantic AI.
    """
    try:
        [loaded] = ModelMessagesTypeAdapter.validate_json(message.framework_item)
    except ValueError as error:
        raise ModelStepFailed(
            f"message {message.sequence} of the session is not one of Pydantic AI: {error}"
        ) from error
    return loaded


def user_prompt(message: AgentMessage) -> str | Sequence[UserContent]:
    """What the user said in a stored user message, as Pydantic AI takes it.

    Raises:
        ModelStepFailed: the message holds no prompt of a user.
    """
    loaded = from_stored(message)
    for part in loaded.parts:
        if isinstance(part, UserPromptPart):
            return part.content
    raise ModelStepFailed(f"message {message.sequence} of the session holds no user prompt")


def _dump(messages: Sequence[ModelMessage]) -> str:
    try:
        text = ModelMessagesTypeAdapter.dump_json(list(messages)).decode()
    except PydanticSerializationError:
        pass  # a lone surrogate, or a value that is no JSON at all: the next line tells
    else:
        if "\\u0000" not in text:
            return text
    data = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return json.dumps(clean_dumped_messages(data), ensure_ascii=False)
