"""Writes events of one Step attempt to the session's Stream: told from any thread, numbered in that order.

Each message costs a frame of the Worker and a call of every reader, however little it holds. So what is
told within one moment travels together. A terminal event is told as its Step ends, and waits for nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Final

import dex

from dex_agents_model.calls import ToolCallStatus
from dex_agents_model.events import (
    AgentEvent,
    CustomEvent,
    EventPayload,
    ReasoningDelta,
    StepMethod,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEvent,
)
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.text import clean_text

from .event_message import EventMessage, event_text

_DELTA_CHARACTERS: Final = 16 * 1024
"""A longer delta is written as several: Dex refuses a Stream message above 100 KiB."""


_MESSAGE_BYTES: Final = 32 * 1024
"""What waits is written before it would be more; only an event that is larger by itself makes a larger message."""
_MESSAGES_IN_A_FULL_STREAM: Final = 16
"""At least: a Stream is cut by whole messages, and who had not read it sees that only where an attempt is cut."""
_GATHERED: Final = timedelta(milliseconds=20)
"""How long an event waits for others; nobody sees it."""
_APART: Final = timedelta(milliseconds=50)
"""Between two messages while an attempt goes on telling: text that grows twenty times a second seems to flow."""


class AttemptEvents:
    """Every event of one attempt; the only place that numbers them, and gathers them into messages.

    They are told on the event loop's thread. Whoever ends the attempt calls `flush` before its result
    or error goes out, and nothing waits from then on.
    """

    def __init__(
        self,
        context: dex.Context,
        method: StepMethod,
        stream: dex.Stream[EventMessage],
        *,
        gathered: timedelta = _GATHERED,
        apart: timedelta = _APART,
    ) -> None:
        self._context = context
        self._method = method
        self._stream = stream
        self._gathered = gathered.total_seconds()
        self._apart = apart.total_seconds()
        share_bytes = stream.stream_capacity_bytes // _MESSAGES_IN_A_FULL_STREAM
        self._message_bytes = min(_MESSAGE_BYTES, share_bytes)
        self._indices = count()
        self._loop = asyncio.get_running_loop()
        self._waiting: list[str] = []
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    def tell(self, event: TurnEvent) -> None:
        """Write it with what is told next, in a moment or at the attempt's end."""
        text = event_text(
            AgentEvent(
                turn_id=event.turn,
                step_execution_id=self._context.step_execution_id,
                method=self._method,
                attempt=self._context.attempt,
                index=next(self._indices),
                payload=event.payload,
            )
        )
        size_bytes = len(text.encode())
        if self._waiting_bytes + size_bytes > self._message_bytes:
            self.flush()
        self._waiting.append(text)
        self._waiting_bytes += size_bytes
        if self._timer is None:
            at = max(self._loop.time() + self._gathered, self._next_at)
            self._timer = self._loop.call_at(at, self.flush)

    def flush(self) -> None:
        """Write what waits, now."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        message = EventMessage.of(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._next_at = self._loop.time() + self._apart
        self._stream.write(self._context, message)


class RunnerEvents:
    """The writer that a runner is given for one call; after `close` it drops what it is told."""

    def __init__(self, events: AttemptEvents, turn: TurnId) -> None:
        self._write: Callable[[TurnEvent], None] | None = events.tell
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def close(self) -> None:
        """The call has returned."""
        self._write = None

    def write_text_delta(self, text: str) -> None:
        for piece in _pieces(text):
            self.tell(TextDelta(piece))

    def write_reasoning_delta(self, text: str) -> None:
        for piece in _pieces(text):
            self.tell(ReasoningDelta(piece))

    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None:
        self.tell(ToolCallStarted(tool_call_id, tool_name))

    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None:
        self.tell(ToolCallFinished(tool_call_id, tool_name, status))

    def write_event(self, name: str, data: str) -> None:
        self.tell(CustomEvent(clean_text(name), clean_text(data)))

    def tell(self, payload: EventPayload) -> None:
        """Write any event about the turn."""
        if threading.get_ident() == self._loop_thread:
            self._tell_on_the_loop(payload)
        else:
            self._loop.call_soon_threadsafe(self._tell_on_the_loop, payload)

    def _tell_on_the_loop(self, payload: EventPayload) -> None:
        if self._write is not None:
            self._write(TurnEvent(self._turn, payload))


def _pieces(text: str) -> Iterator[str]:
    cleaned = clean_text(text)
    for start in range(0, len(cleaned), _DELTA_CHARACTERS):
        yield cleaned[start : start + _DELTA_CHARACTERS]
