"""Instants as whole microseconds since 1970, the form in which they are stored.

No clock lives here: every instant is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def to_seconds(instant: datetime) -> int:
    """Whole seconds, cut, as `Context` carries them."""
    return to_microseconds(instant) // 1_000_000
