"""What a Step may wait for, as data. Timers live here because Dex asks for waits before it executes."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from attrs import field, frozen, validators

from .ids import InterruptId


@frozen
class NoWait:
    """Execute at once."""


@frozen
class ForUserMessage:
    """One steering message, or else one of the user queue; it consumes the one it takes."""


@frozen
class ForInterruptResolution:
    """One answer to an interrupt, which it consumes, or the end of ``at_most``, if that is given.

    ``at_most`` is in whole seconds, never negative.
    """

    interrupt_id: InterruptId
    at_most: timedelta | None = None


@frozen
class ForToolResults:
    """``count`` results of tool calls, which it consumes."""

    count: int = field(validator=validators.ge(1))


Wait: TypeAlias = NoWait | ForUserMessage | ForInterruptResolution | ForToolResults
"""What a Step waits for before it executes."""
