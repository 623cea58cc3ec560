"""What a user sends beside text: images, documents, audio, video. How large it may be is the session's business.

A client sends it as JSON, which `user_content` writes. In a session it lies in the user's message, as
a prompt of Pydantic AI with the text first.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.messages import CachePoint, ModelMessagesTypeAdapter, UserContent
from pydantic_core import PydanticSerializationError

from dex_agents_model import FrameworkMessage, MessageRole
from dex_agents_model.text import clean_text, shorten

from .cleaning import clean_json
from .history import shown_words
from .input_size import estimated_tokens

_ERROR_BYTES: Final = 512
_PIECES: Final[TypeAdapter[list[UserContent]]] = TypeAdapter(list[UserContent])


def user_content(*pieces: UserContent) -> str:
    """``pieces`` as the ``content`` that a client sends; the model is shown them behind the text, in order.

    Raises:
        ValueError: there is no piece, or one has no JSON form.
    """
    if all(isinstance(piece, CachePoint) for piece in pieces):
        raise ValueError("user_content needs at least one text, image, document or other file")
    content = json.dumps([_json_of(piece) for piece in pieces], ensure_ascii=False)
    build_user_message("", content)  # it can be read again
    return content


def _json_of(piece: UserContent) -> Any:
    try:
        [data] = _PIECES.dump_python([piece], mode="json", exclude_none=True, warnings="error")
    except PydanticSerializationError as error:
        said = shorten(str(error), _ERROR_BYTES)
        raise ValueError(f"a {type(piece).__name__} cannot be sent in a message: {said}") from error
    return clean_json(data)


def build_user_message(text: str, content: str | None = None) -> FrameworkMessage:
    """A user's message. Its item has no timestamp: the same arguments give the same item.

    Raises:
        ValueError: ``content`` is not what `user_content` writes.
    """
    text = clean_text(text)
    if content is None:
        return FrameworkMessage(MessageRole.USER, _item(text), text)
    pieces = _pieces(content)
    item = _item([text, *pieces] if text.strip() else pieces)
    try:
        [message] = ModelMessagesTypeAdapter.validate_json(item)
    except ValueError as error:
        said = shorten(str(error), _ERROR_BYTES)
        raise ValueError(f"the content beside the text cannot be read: {said}") from error
    return FrameworkMessage(
        MessageRole.USER,
        item,
        shown_words(message),
        estimated_tokens=estimated_tokens([message], item),
    )


def _pieces(content: str) -> list[Any]:
    try:
        pieces = json.loads(content)
    except ValueError as error:
        raise ValueError(f"the content beside the text is no JSON: {error}") from error
    if not isinstance(pieces, list) or not pieces:
        raise ValueError("the content beside the text is no list of pieces")
    return [clean_json(piece) for piece in pieces]


def _item(prompt: object) -> str:
    part = {"content": prompt, "part_kind": "user-prompt"}
    return json.dumps([{"parts": [part], "kind": "request"}], ensure_ascii=False)
