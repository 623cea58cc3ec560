"""Identifiers, and the one parser for each. No record may hold an identifier that was not parsed here.

Each is a ``str`` so that it prints, compares and travels as one; constructing it is parsing it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Self

from .text import clean_text, digest, is_storable

_TURN: Final = re.compile(r"turn-([1-9][0-9]*)")
_INTERRUPT: Final = re.compile(r"turn-[1-9][0-9]*\..+", re.DOTALL)
_REFUSED_IN_NAME: Final = "/$:"
_INVISIBLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_ID_CHARACTERS: Final = 256
_KEPT_TURN_IDS: Final = 1024


def refuse_unusable_name(kind: str, text: str) -> None:
    """Refuse what cannot name a session or a Flow type. Names go into logs, headers, shells and terminals.

    Raises:
        ValueError: the text is blank or has more than 256 characters; or it holds one of ``/ $ :``, a control
            character, a line break or a lone surrogate. The message says which, of what ``kind``.
    """
    if not text.strip():
        raise ValueError(f"{kind} {text!r} is blank; choose a name")
    if len(text) > _MAX_ID_CHARACTERS:
        raise ValueError(
            f"{kind} {text[:40]!r}... has {len(text)} characters;"
            f" at most {_MAX_ID_CHARACTERS} are allowed"
        )
    refused = sorted({sign for sign in text if sign in _REFUSED_IN_NAME})
    if refused:
        raise ValueError(
            f"{kind} {text!r} holds {' '.join(refused)!r};"
            f" use any characters but {' '.join(_REFUSED_IN_NAME)}"
        )
    if _INVISIBLE.search(text):
        raise ValueError(
            f"{kind} {text!r} holds a control character, a line break or a lone surrogate"
        )


def usable_tool_name(text: str) -> str:
    """``text``, by which a model may call a tool: 1 to 256 characters, not blank.

    Raises:
        ValueError: it is no such text.
    """
    if not text.strip() or len(text) > _MAX_ID_CHARACTERS:
        raise ValueError(
            f"tool name {text[:40]!r} must have 1 to {_MAX_ID_CHARACTERS} characters"
            " and not be blank"
        )
    return text


class SessionId(str):
    """The Flow ID of a session: 1 to 256 characters, not blank; no ``/ $ :``, nothing that cannot be seen.

    Raises:
        ValueError: the text is no session ID; the message says why.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        refuse_unusable_name("session ID", text)
        return super().__new__(cls, text)


class TurnId(str):
    """``turn-<n>``, numbered from 1 within a session.

    Raises:
        ValueError: the text has another form.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if _TURN.fullmatch(text) is None:
            raise ValueError(f"turn ID {text!r} is not of the form 'turn-<n>', n counted from 1")
        return super().__new__(cls, text)

    @classmethod
    def of(cls, number: int) -> TurnId:
        """The ID of the session's ``number``-th turn, counted from 1.

        Raises:
            ValueError: ``number`` is below 1.
        """
        return _turn_of(number)

    @property
    def number(self) -> int:
        """The turn's position in its session, counted from 1."""
        return int(self.removeprefix("turn-"))


@lru_cache(_KEPT_TURN_IDS)
def _turn_of(number: int) -> TurnId:
    """Every Step of a turn asks which turn its session runs: the newest answers are kept."""
    if number < 1:
        raise ValueError(f"turns are counted from 1; there is no turn {number}")
    return str.__new__(TurnId, f"turn-{number}")  # of the right form, without parsing it


class ToolCallId(str):
    """What a session calls a tool call of the model: 1 to 256 characters, not blank, no ``/``.

    Unique within one turn only; a later turn may use it again.

    Raises:
        ValueError: the text is no tool call ID.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not text.strip() or "/" in text or len(text) > _MAX_ID_CHARACTERS:
            raise ValueError(
                f"tool call ID {text[:40]!r} must have 1 to {_MAX_ID_CHARACTERS} characters,"
                " not be blank, and hold no '/'"
            )
        if not is_storable(text):
            raise ValueError(f"tool call ID {text!r} holds a lone surrogate")
        return super().__new__(cls, text)

    @classmethod
    def standing_for(cls, text: str) -> ToolCallId:
        """What a session calls a tool call that the model calls ``text``: that, or ``call-<digest of it>``.

        An ID is the provider's to choose, and some put into it what they want back: any but an empty
        one can be worked with.

        Raises:
            ValueError: ``text`` is empty.
        """
        cleaned = clean_text(text)
        if "/" in cleaned or len(cleaned) > _MAX_ID_CHARACTERS or cleaned.isspace():
            return cls(f"call-{digest(cleaned).removeprefix('sha256:')}")
        return cls(cleaned)


class InterruptId(str):
    """``<turn ID>.<tool call ID>``: unique over the whole session.

    Raises:
        ValueError: the text has another form.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if "/" in text or _INTERRUPT.fullmatch(text) is None:
            raise ValueError(f"interrupt ID {text!r} is not of the form 'turn-<n>.<tool call ID>'")
        if not is_storable(text):
            raise ValueError(f"interrupt ID {text!r} holds a lone surrogate")
        return super().__new__(cls, text)

    @classmethod
    def of(cls, turn: TurnId, call: ToolCallId) -> InterruptId:
        """The ID of the approval that ``call`` of ``turn`` waits for."""
        return super().__new__(cls, f"{turn}.{call}")  # of the right form, as its parts are


def idempotency_key(session: SessionId, turn: TurnId, call: ToolCallId) -> str:
    """``<session>/<turn>/<call>``: the same on every attempt of one tool call, and of no other."""
    return f"{session}/{turn}/{call}"
