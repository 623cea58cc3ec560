"""About how much of a model's input messages with files take. When that is too much is the model package's business.

A file as base64 has far more bytes than text of as many tokens. Providers count it by other
measures, so the figures here are meant to be somewhat high, not exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    FileUrl,
    ModelMessage,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from dex_agents_model.text import size_bytes

_File: TypeAlias = BinaryContent | FileUrl | UploadedFile

_TEXT_BYTES_PER_TOKEN: Final = 3
_FILE_TOKENS: Final = 1600
"""What an image counts, however large: providers scale it down. Also anything of which only the address is known."""
_DOCUMENT_BYTES_PER_TOKEN: Final = 20
_RECORDING_BYTES_PER_TOKEN: Final = 300
"""Of audio and video, compressed as usual."""


def estimated_tokens(messages: Sequence[ModelMessage], text: str) -> int | None:
    """The tokens of ``messages``, which are ``text`` as JSON; None when there is no file in them."""
    files = list(_files(messages))
    if not files:
        return None
    of_files = sum(_encoded_bytes(file) for file in files)
    of_text = max(size_bytes(text) - of_files, 0) // _TEXT_BYTES_PER_TOKEN
    return of_text + sum(map(_file_tokens, files))


def _files(messages: Sequence[ModelMessage]) -> Iterator[_File]:
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart(content=content) if not isinstance(content, str):
                    yield from (piece for piece in content if isinstance(piece, _File))
                case ToolReturnPart():
                    yield from part.files
                case FilePart(content=file):
                    yield file
                case _:
                    pass


def _encoded_bytes(file: _File) -> int:
    return (len(file.data) + 2) // 3 * 4 if isinstance(file, BinaryContent) else 0


def _file_tokens(file: _File) -> int:
    if not isinstance(file, BinaryContent) or file.is_image:
        return _FILE_TOKENS
    if file.media_type.startswith("text/"):
        return len(file.data) // _TEXT_BYTES_PER_TOKEN
    is_recording = file.is_audio or file.is_video
    bytes_per_token = _RECORDING_BYTES_PER_TOKEN if is_recording else _DOCUMENT_BYTES_PER_TOKEN
    return max(len(file.data) // bytes_per_token, _FILE_TOKENS)
