"""The one border for text. What a session stores as text came through here; opaque framework items did not."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from math import isfinite
from typing import Final, TypeVar

from attrs import Attribute

T = TypeVar("T", bound=str | None)

MAX_ID_BYTES: Final = 1024
"""Of an ID that a caller names a request by."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORTENED: Final = re.compile(r"\.\.\. \[([0-9]{1,18}) bytes in full\]\Z")
_ERROR_BYTES: Final = 8192
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str) -> str:
    """``text`` with each NUL and each lone surrogate replaced by U+FFFD, and nothing else changed."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def is_storable(text: str) -> bool:
    """Whether ``text`` can be stored byte-exact: it holds no lone surrogate."""
    return text.isascii() or _SURROGATE.search(text) is None


def refuse_unstorable(_: object, field: Attribute[T], text: T) -> None:
    """A validator of what may not be changed: names, digests, and JSON text of others.

    Raises:
        ValueError: ``text`` holds a lone surrogate.
    """
    if text is not None and not is_storable(text):
        raise ValueError(f"{field.name} {text!r:.80} holds a character that UTF-8 cannot hold")


def refuse_unusable_id(instance: object, field: Attribute[str], text: str) -> None:
    """A validator of the IDs that callers name their requests by: a session keeps many of them.

    Raises:
        ValueError: ``text`` cannot be stored, or is longer than MAX_ID_BYTES.
    """
    refuse_unstorable(instance, field, text)
    size = size_bytes(text)
    if size > MAX_ID_BYTES:
        raise ValueError(
            f"{field.name} {text!r:.80} takes {size:,} bytes; at most {MAX_ID_BYTES:,} are kept"
        )


def parse_json(text: str) -> object:
    """The JSON value that ``text`` is.

    Raises:
        ValueError: it is none, it is nested too deep, or it holds a number that is not finite.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("the JSON text is nested too deep") from error


def is_json_object(text: str) -> bool:
    """Whether ``text`` is JSON of an object, as `parse_json` reads it: what the arguments of a tool call must be."""
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def _finite(number: str) -> float:
    """Lenient readers take NaN, Infinity and 1e999 for numbers, and strict ones refuse what they wrote of them."""
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"{number} is no number of JSON")
    return value


def size_bytes(text: str) -> int:
    """The length of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def keep_bytes(text: str, limit_bytes: int) -> str:
    """The longest start of ``text`` that has at most ``limit_bytes`` in UTF-8; no character is split."""
    if text.isascii():
        return text[:limit_bytes]
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit_bytes:
        return text
    end = limit_bytes
    while encoded[end] & 0b1100_0000 == 0b1000_0000:  # in the middle of a character
        end -= 1
    return encoded[:end].decode("utf-8", "surrogatepass")


def shorten(text: str, limit_bytes: int) -> str:
    """``text`` cut to ``limit_bytes`` with a visible marker behind the cut, or as it is when it fits.

    A text that was shortened before keeps telling its first size.
    """
    size = size_bytes(text)
    if size <= limit_bytes:
        return text
    before = _SHORTENED.search(text)
    if before is not None:
        text, size = text[: before.start()], int(before[1])
    return f"{keep_bytes(text, limit_bytes)}... [{size} bytes in full]"


def error_text(text: str) -> str:
    """Why something failed, as it is stored and told: an error may quote whatever it failed on."""
    return shorten(clean_text(text), _ERROR_BYTES)


def digest(text: str) -> str:
    """``sha256:<hex>`` of ``text`` in UTF-8: what an approver names to say which arguments were seen."""
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
