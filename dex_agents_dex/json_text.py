"""JSON data as the text that is stored and sent: no spaces, nothing escaped that UTF-8 can hold."""

from __future__ import annotations

import json
from typing import Final

_ENCODER: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def json_text(data: object) -> str:
    """``data`` as text.

    Raises:
        ValueError: it holds a number that JSON does not have.
    """
    return _ENCODER.encode(data)
