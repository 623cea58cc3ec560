"""Instants and lengths as Protobuf has them: the same as its own, slower conversion gives."""

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from dex_agents_dex.devengine.core.instants import EPOCH, set_duration, set_instant


@pytest.mark.parametrize(
    "instant",
    [EPOCH, EPOCH - timedelta(microseconds=1), datetime(2106, 2, 7, 6, 28, 16, 999_999, UTC)],
)
def test_set_instant__gives_what_protobuf_gives(instant: datetime) -> None:
    ours, theirs = Timestamp(seconds=5, nanos=5), Timestamp()
    set_instant(ours, instant)
    theirs.FromDatetime(instant)
    assert ours == theirs


@pytest.mark.parametrize(
    "length", [timedelta(), timedelta(microseconds=1), timedelta(days=40_000, microseconds=7)]
)
def test_set_duration__gives_what_protobuf_gives(length: timedelta) -> None:
    ours, theirs = Duration(seconds=5, nanos=5), Duration()
    set_duration(ours, length)
    theirs.FromTimedelta(length)
    assert ours == theirs


def test_set_duration__counts_a_negative_length_as_none() -> None:
    """As it comes out when the machine's clock was put back between two looks at it."""
    length = Duration()
    set_duration(length, timedelta(seconds=-1))
    assert length == Duration()
