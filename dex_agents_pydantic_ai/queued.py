"""What code of the agent queues for the model: messages, and capabilities that it loads. The next request has it.

A run that ends at tool calls would lose it. It is taken out of such a run, kept with the turn, and
put into the run that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from attrs import frozen
from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage

from . import private


@frozen
class Queued:
    """``messages`` in the order in which they were queued, and the IDs of the capabilities ``loads``."""

    messages: tuple[ModelMessage, ...] = ()
    loads: tuple[str, ...] = ()

    @classmethod
    def taken_from(cls, ctx: RunContext[Any]) -> Queued:
        """All that waits in the queue of a run, which is empty then."""
        messages, loads = private.take_queued(ctx)
        return cls(tuple(messages), tuple(loads))

    @classmethod
    def joined(cls, several: Iterable[Queued]) -> Queued:
        parts = tuple(several)
        return cls(
            tuple(message for part in parts for message in part.messages),
            tuple(capability_id for part in parts for capability_id in part.loads),
        )

    def put_into(self, ctx: RunContext[Any]) -> None:
        """Queue it in a run that has not begun."""
        ctx.enqueue(*self.messages)
        for capability_id in self.loads:
            with suppress(UserError):  # a newer definition of the agent has no such capability
                ctx.load_capability(capability_id)
