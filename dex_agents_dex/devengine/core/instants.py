"""Instants as whole microseconds since 1970, the form in which they are stored, and as Protobuf has them.

No clock lives here: every instant is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOTHING: Final = timedelta()


def to_microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def set_instant(timestamp: Timestamp, instant: datetime) -> None:
    """What `FromDatetime` does, in a third of its time: each Step has several of them."""
    seconds, microseconds = divmod(to_microseconds(instant), 1_000_000)
    timestamp.seconds = seconds
    timestamp.nanos = microseconds * 1000


def set_duration(duration: Duration, length: timedelta) -> None:
    """A negative length counts as none."""
    length = max(length, _NOTHING)
    duration.seconds = length.days * 86_400 + length.seconds
    duration.nanos = length.microseconds * 1000


def to_seconds(instant: datetime) -> int:
    """Whole seconds, cut, as `Context` carries them."""
    return to_microseconds(instant) // 1_000_000
