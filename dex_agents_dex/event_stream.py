"""Writes events of one Step attempt to the session's Stream, from any thread, numbered in the order of writing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
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

_DELTA_CHARACTERS: Final = 16 * 1024
"""A longer delta is written as several: Dex refuses a Stream message above 100 KiB."""


class AttemptEvents:
    """Every event of one attempt; the only place that numbers them."""

    def __init__(
        self, context: dex.Context, method: StepMethod, stream: dex.Stream[AgentEvent]
    ) -> None:
        self._context = context
        self._method = method
        self._stream = stream
        self._indices = count()

    def write(self, event: TurnEvent) -> None:
        """Write now. Must be called on the event loop's thread."""
        self._stream.write(
            self._context,
            AgentEvent(
                turn_id=event.turn,
                step_execution_id=self._context.step_execution_id,
                method=self._method,
                attempt=self._context.attempt,
                index=next(self._indices),
                payload=event.payload,
            ),
        )


class RunnerEvents:
    """The writer that a runner is given for one call; after `close` it drops what it is told."""

    def __init__(self, events: AttemptEvents, turn: TurnId) -> None:
        self._write: Callable[[TurnEvent], None] | None = events.write
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
