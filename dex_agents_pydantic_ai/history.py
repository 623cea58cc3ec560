"""Pydantic AI's messages as a session stores them, and back. What a model is told is not decided here.

A stored item is a JSON array of one message, as ModelMessagesTypeAdapter writes it, without fields
that are null. Its text is valid UTF-8, and byte-exact apart from what `cleaning` replaces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NotRequired, TypeAlias

from attrs import evolve, frozen
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from dex_agents_model import AgentMessage, FrameworkMessage, MessageRole, ToolCallId
from dex_agents_model.text import clean_text, shorten

from .cleaning import clean_dumped_messages
from .errors import ModelStepFailed
from .input_size import estimated_tokens
from .queued import Queued
from .tool_output import content_label, output_text

_SHOWN_RESULT_BYTES: Final = 2048
_NUL: Final = "\\u0000"
"""As JSON writes it."""

Decode: TypeAlias = Callable[[AgentMessage], ModelMessage]


@frozen
class RunState:
    """What goes on with a turn after its tools: the turn's messages so far, and the calls that wait.

    ``messages`` begins with the request that holds the user's prompt. ``call_ids`` are those of the
    latest response, in model order.
    """

    messages: tuple[ModelMessage, ...]
    call_ids: tuple[str, ...]
    queued: Queued = Queued()
    """What goes to the model beside the results of the calls."""

    def to_json(self) -> str:
        fields = [
            f'"messages":{dump_messages(self.messages)}',
            f'"calls":{json.dumps(self.call_ids)}',
        ]
        if self.queued.messages:
            fields.append(f'"queued":{dump_messages(self.queued.messages)}')
        if self.queued.loads:
            fields.append(f'"loads":{json.dumps(self.queued.loads)}')
        return f"{{{','.join(fields)}}}"

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
        queued = Queued(tuple(state.get("queued", ())), tuple(state.get("loads", ())))
        return cls(tuple(state["messages"]), tuple(state["calls"]), queued)


class _RunStateJson(TypedDict):
    messages: list[ModelMessage]
    calls: list[str]
    queued: NotRequired[list[ModelMessage]]
    loads: NotRequired[list[str]]


_RUN_STATE: TypeAdapter[_RunStateJson] = TypeAdapter(_RunStateJson)


def to_stored(message: ModelMessage) -> FrameworkMessage:
    """One message with its display fields."""
    item = _item(message)
    if isinstance(message, ModelResponse):
        calls = message.tool_calls
        only_call = calls[0] if len(calls) == 1 else None
        return FrameworkMessage(
            role=MessageRole.ASSISTANT,
            framework_item=item,
            text=None if message.text is None else clean_text(message.text),
            tool_call_id=_call_id(only_call),
            tool_name=None if only_call is None else only_call.tool_name,
            estimated_tokens=estimated_tokens([message], item),
        )
    returns = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    only_return = returns[0] if len(returns) == 1 else None
    return FrameworkMessage(
        role=MessageRole.TOOL if returns else MessageRole.USER,
        framework_item=item,
        text=_results(returns) if returns else shown_words(message),
        tool_call_id=_call_id(only_return),
        tool_name=None if only_return is None else only_return.tool_name,
        estimated_tokens=estimated_tokens([message], item),
    )


def _call_id(part: ToolCallPart | ToolReturnPart | None) -> ToolCallId | None:
    """What the session calls the call, for whoever looks for its record."""
    return None if part is None else ToolCallId.standing_for(part.tool_call_id)


def _results(returns: Sequence[ToolReturnPart]) -> str:
    """What tools returned, each shortened: the item holds it in full."""
    if len(returns) == 1:
        return shorten(output_text(returns[0]), _SHOWN_RESULT_BYTES)
    return "\n".join(
        f"{part.tool_name}: {shorten(output_text(part), _SHOWN_RESULT_BYTES)}" for part in returns
    )


def shown_words(message: ModelMessage) -> str | None:
    """What the user said in a request that holds nothing else, with a line for each file."""
    shown = ""
    for part in message.parts:
        if not isinstance(part, UserPromptPart):
            return None
        for piece in [part.content] if isinstance(part.content, str) else part.content:
            gap = "\n\n" if isinstance(piece, str | TextContent) else "\n"
            label = content_label(piece)
            shown += gap + label if shown and label else label
    return shown or None


def turn_to_stored(messages: Sequence[ModelMessage]) -> tuple[FrameworkMessage, ...]:
    """A turn as stored messages, without what the session has stored already.

    The opening request is left out when it holds the user's prompt and nothing else.
    """
    if not messages:
        return ()
    opening, *others = messages
    is_prompt_alone = len(opening.parts) == 1 and isinstance(opening.parts[0], UserPromptPart)
    # Shown already, by the user message that it stands for in a replay.
    first = () if is_prompt_alone else (evolve(to_stored(opening), text=None),)
    return (*first, *map(to_stored, others))


def with_words_apart(
    messages: Sequence[ModelMessage], words: str | Sequence[UserContent]
) -> list[ModelMessage]:
    """The messages of a run with what the user said beside tool results in a request of its own.

    So it is shown as the user's, and what a tool said is not. Pydantic AI joins the two again.
    """
    apart: list[ModelMessage] = []
    for message in messages:
        places = [at for at, part in enumerate(message.parts) if _says(part, words)]
        if not isinstance(message, ModelRequest) or not places or len(message.parts) == 1:
            apart.append(message)
            continue
        others = list(message.parts)
        said = others.pop(places[-1])
        apart += [replace(message, parts=others), replace(message, parts=[said])]
    return apart


def _says(part: object, words: str | Sequence[UserContent]) -> bool:
    return isinstance(part, UserPromptPart) and part.content == words


def earlier_turns(messages: Sequence[AgentMessage], decode: Decode) -> list[ModelMessage]:
    """What the model is replayed of the turns before. ``messages`` are theirs alone, in order.

    An opening request that was kept stands for the user message before it.
    """
    replayed: list[ModelMessage] = []
    turn_id, place = None, 0
    for message in messages:
        loaded = decode(message)
        place = place + 1 if message.turn_id == turn_id else 1
        turn_id = message.turn_id
        if place == 2 and _is_opening(message, loaded):
            replayed.pop()
        replayed.append(loaded)
    return replayed


def _is_opening(stored: AgentMessage, message: ModelMessage) -> bool:
    """Whether the second message of a turn is the request with the user's prompt and more."""
    return (
        stored.role is MessageRole.USER
        and stored.text is None
        and any(isinstance(part, UserPromptPart) for part in message.parts)
    )


def tool_calls_of(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Every tool call that the model made in these messages, in order."""
    return [
        call
        for message in messages
        if isinstance(message, ModelResponse)
        for call in message.tool_calls
    ]


def from_stored(message: AgentMessage | FrameworkMessage) -> ModelMessage:
    """The message that was stored.

    Raises:
        ModelStepFailed: its item is not one message of Pydantic AI.
    """
    try:
        [loaded] = ModelMessagesTypeAdapter.validate_json(message.framework_item)
    except ValueError as error:
        raise ModelStepFailed(f"{_named(message)} is not one of Pydantic AI: {error}") from error
    return loaded


def _named(message: AgentMessage | FrameworkMessage) -> str:
    if isinstance(message, AgentMessage):
        return f"message {message.sequence} of the session"
    return f"a {message.role} message"


def user_prompt(message: AgentMessage | FrameworkMessage) -> str | Sequence[UserContent]:
    """What the user said in a user message, as Pydantic AI takes it.

    Raises:
        ModelStepFailed: the message holds no prompt of a user.
    """
    loaded = from_stored(message)
    for part in loaded.parts:
        if isinstance(part, UserPromptPart):
            return part.content
    raise ModelStepFailed(f"{_named(message)} holds no user prompt")


def _item(message: ModelMessage) -> str:
    """The message without fields that say nothing, if it is read as the same one; else with all of them."""
    try:
        shorter = ModelMessagesTypeAdapter.dump_json([message], exclude_none=True).decode()
        if _NUL not in shorter and ModelMessagesTypeAdapter.validate_json(shorter) == [message]:
            return shorter
    except ValueError:
        pass  # it is not storable, or means something by a null: the next lines tell
    return _without_nulls(dump_messages([message]))


def _without_nulls(item: str) -> str:
    """As `_item`, of what is not read as it was: a message that was cleaned, a value that became plain data."""
    try:
        message = ModelMessagesTypeAdapter.validate_json(item)
        shorter = ModelMessagesTypeAdapter.dump_json(message, exclude_none=True).decode()
        is_same = ModelMessagesTypeAdapter.validate_json(shorter) == message
    except ValueError:
        return item
    return shorter if is_same else item


def dump_messages(messages: Sequence[ModelMessage]) -> str:
    """The JSON text of messages, storable.

    Raises:
        PydanticSerializationError: a message holds something that has no JSON form.
    """
    try:
        text = ModelMessagesTypeAdapter.dump_json(list(messages)).decode()
    except PydanticSerializationError:
        pass  # a lone surrogate, or a value that is no JSON at all: the next line tells
    else:
        if _NUL not in text:
            return text
    data = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return json.dumps(clean_dumped_messages(data), ensure_ascii=False)
