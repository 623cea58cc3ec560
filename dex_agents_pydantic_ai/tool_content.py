"""What a tool returned beside its text: files, words for the model, data for the application.

It lies in the call's record as the JSON of one request and of the messages that the tool queued,
which nothing but this file reads. How large it may be is the session's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from attrs import frozen
from pydantic_ai import ToolReturn
from pydantic_ai.messages import (
    CapabilityLoadDeltaPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ToolAvailabilityDeltaPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    is_multi_modal_content,
)
from pydantic_core import PydanticSerializationError

from dex_agents_model import Succeeded, ToolExecutionResult, describe_tool_call_outcome

from .errors import ModelStepFailed
from .history import dump_messages
from .input_size import estimated_tokens
from .queued import Queued
from .tool_output import json_of, output_text

_LEFT_OUT: Final = "[What {name} returned beside this text was left out: it has no JSON form.]"


@frozen(kw_only=True)
class ToolContent:
    """``value`` is the whole return value, and only kept when there are files in it."""

    value: Any = None
    said: str | Sequence[UserContent] | None = None
    metadata: Any = None
    revealed: Sequence[str] = ()
    """Tools that the model may call from now on."""
    queued: Queued = Queued()
    """What the tool queued for the model, apart from words that can stand beside its result."""

    @classmethod
    def of(cls, record: Succeeded) -> ToolContent:
        """What the record of a call keeps; nothing, for most of them.

        Raises:
            ModelStepFailed: it cannot be read.
        """
        if record.framework_content is None:
            return cls()
        try:
            request, *queued = ModelMessagesTypeAdapter.validate_json(record.framework_content)
        except ValueError as error:
            raise ModelStepFailed(
                f"the content of tool call {record.tool_call_id} cannot be read: {error}"
            ) from error
        return cls._of_parts(request.parts, queued)

    @classmethod
    def _of_parts(
        cls, parts: Sequence[object], queued: Sequence[ModelMessage], loads: Sequence[str] = ()
    ) -> ToolContent:
        fields: dict[str, Any] = {}
        for part in parts:
            match part:
                case ToolReturnPart():
                    fields["metadata"] = part.metadata
                    if part.files:
                        fields["value"] = part.content
                case ToolAvailabilityDeltaPart():
                    fields["revealed"] = part.tools_added
                case CapabilityLoadDeltaPart():
                    loads = part.loaded
                case UserPromptPart():
                    fields["said"] = part.content
        return cls(**fields, queued=Queued(tuple(queued), tuple(loads)))

    def to_return(self, content: object) -> ToolReturn:
        """The result to go on with, with ``content`` for its value."""
        return ToolReturn(
            content, content=self.said, metadata=self.metadata, tools=list(self.revealed) or None
        )

    def parts_beside(self, call_id: str) -> list[ModelRequestPart]:
        """What stands behind the result in a request, as Pydantic AI places it."""
        parts: list[ModelRequestPart] = []
        if self.revealed:
            parts.append(
                ToolAvailabilityDeltaPart(tools_added=list(self.revealed), tool_call_id=call_id)
            )
        if self.queued.loads:
            parts.append(
                CapabilityLoadDeltaPart(loaded=list(self.queued.loads), tool_call_id=call_id)
            )
        if self.said:
            parts.append(UserPromptPart(self.said))
        return parts


def execution_result(
    part: ToolReturnPart, beside: Sequence[object], queued: Queued
) -> ToolExecutionResult:
    """What a tool returned, from the parts of the request that would have gone to the model.

    Raises:
        ToolExecutionError: its value has no JSON form.
    """
    text = output_text(part)
    words = list(takewhile(_is_words, queued.messages))
    others = queued.messages[len(words) :]
    spoken = [*beside, *(said for message in words for said in message.parts)]
    found = ToolContent._of_parts([part, *_with_words_joined(spoken)], others, queued.loads)
    if found == ToolContent():
        return ToolExecutionResult(text)
    try:
        return _result_with_content(text, part, found)
    except PydanticSerializationError:
        left_out = _LEFT_OUT.format(name=part.tool_name)
        return ToolExecutionResult(f"{text}\n{left_out}")


def _result_with_content(
    text: str, part: ToolReturnPart, found: ToolContent
) -> ToolExecutionResult:
    kept = ToolReturnPart(
        part.tool_name,
        None if found.value is None else _with_json(found.value),
        part.tool_call_id,
        metadata=json_of(found.metadata),
        timestamp=part.timestamp,
    )
    parts = [kept, *found.parts_beside(part.tool_call_id)]
    request = ModelRequest(parts, timestamp=part.timestamp)
    messages = [request, *found.queued.messages]
    content = dump_messages(messages)
    return ToolExecutionResult(text, content, estimated_tokens(messages, content))


def _is_words(message: ModelMessage) -> bool:
    """Whether the message can stand beside a result, as Pydantic AI places it in a run that goes on."""
    return all(isinstance(part, UserPromptPart) for part in message.parts)


def _with_words_joined(parts: Sequence[object]) -> list[object]:
    """The parts with all that is said to the model in one prompt behind the others."""
    prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    if len(prompts) < 2:
        return list(parts)
    pieces = [[prompt] if isinstance(prompt, str) else prompt for prompt in prompts]
    joined = UserPromptPart([piece for several in pieces for piece in several])
    return [*(part for part in parts if not isinstance(part, UserPromptPart)), joined]


def _with_json(value: Any) -> Any:
    """The value as the model is shown it: files as they are, anything else as JSON data."""
    if isinstance(value, list):
        return [item if is_multi_modal_content(item) else json_of(item) for item in value]
    return value


def full_value(record: Succeeded, content: ToolContent) -> object:
    """The value of the result: its text, or all of it when it holds files.

    A text that the session has cut or added to stands before the files, in place of the tool's own.
    """
    text = describe_tool_call_outcome(record)
    if content.value is None:
        return text
    if not record.output_truncated and not record.call.arguments_edited:
        return content.value
    items = content.value if isinstance(content.value, list) else [content.value]
    return [text, *filter(is_multi_modal_content, items)]
