"""One event after the other, though several travel in one message, and behind each a position to read on from."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Final

import dex
from attrs import frozen

from dex_agents_model.events import AgentEvent
from dex_agents_model.ids import SessionId

from .event_message import EventMessage

_KEPT_MESSAGES: Final = 64  # of 32 KiB, seldom 100


@frozen
class ReadEvent:
    """One event of a session's Stream, and the position to read on from."""

    event: AgentEvent
    resume_token: str


@frozen
class Position:
    """Behind the first ``taken`` events of a message, which was the first one behind ``before``.

    ``before`` and ``message`` are Dex's own tokens; one of these alone stands behind a whole message.
    """

    before: str
    message: str = ""
    taken: int = 0

    @classmethod
    def of(cls, token: str) -> Position:
        """What ``token`` says. One of another form is Dex's to read, or to refuse."""
        try:
            parts: object = json.loads(token) if token.startswith("[") else None
        except (ValueError, RecursionError):
            parts = None
        match parts:
            case [str(before), str(message), int(taken)] if message and taken > 0:
                return cls(before, message, taken)
            case _:
                return cls(token)

    @property
    def token(self) -> str:
        return json.dumps([self.before, self.message, self.taken]) if self.message else self.before


class ReadAhead:
    """Messages of which some events are still to be handed out: reading on asks no server.

    It makes reading cheaper, and nothing else: without one, its message is read again.
    """

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[SessionId, str], tuple[AgentEvent, ...]] = OrderedDict()

    def next_event(self, session: SessionId, position: Position) -> ReadEvent | None:
        """The event at ``position``; None where it is not in a message that is known."""
        events = self._messages.pop((session, position.message), None)
        return None if events is None else self._hand_out(session, position, events)

    def first_event(
        self, session: SessionId, position: Position, message: dex.StreamMessage[EventMessage]
    ) -> ReadEvent:
        """The first event of ``message`` that is behind ``position``: it was the next one to read there.

        Where the Stream was cut, another message is; then none of its events was taken.
        """
        taken = position.taken if position.message == message.resume_token else 0
        here = Position(position.before, message.resume_token, taken)
        return self._hand_out(session, here, message.value.events())

    def _hand_out(
        self, session: SessionId, position: Position, events: tuple[AgentEvent, ...]
    ) -> ReadEvent:
        taken = position.taken if position.taken < len(events) else 0  # no token of ours says more
        event = events[taken]
        if taken + 1 == len(events):
            return ReadEvent(event, position.message)
        self._messages[session, position.message] = events
        if len(self._messages) > _KEPT_MESSAGES:
            self._messages.popitem(last=False)
        return ReadEvent(event, Position(position.before, position.message, taken + 1).token)
