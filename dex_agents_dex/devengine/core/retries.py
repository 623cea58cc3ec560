"""How long until the next attempt of a Step method, and whether there is one.

Arithmetic alone: no state of a run lives here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dex.dexpb import dex_pb2 as pb

DEFAULT_INITIAL_INTERVAL: Final = timedelta(seconds=1)
DEFAULT_COEFFICIENT: Final = 2.0
DEFAULT_MAXIMUM_INTERVAL: Final = timedelta(seconds=100)
DEFAULT_TOTAL_DURATION: Final = timedelta(hours=4)
DEFAULT_METHOD_TIMEOUT: Final = timedelta(hours=2)
DEFAULT_HEARTBEAT_TIMEOUT: Final = timedelta(seconds=60)
MINIMUM_HEARTBEAT_TIMEOUT: Final = timedelta(seconds=10)


def delay_before_retry(
    policy: pb.RetryPolicy,
    attempt: int,
    first_attempt_at: datetime,
    now: datetime,
    requested: timedelta | None,
) -> timedelta | None:
    """The wait before attempt `attempt + 1`, or None when the policy allows no further one.

    `requested` replaces the policy's interval, as a Worker's `retry_after_seconds` does.
    """
    if policy.maximum_attempts and attempt >= policy.maximum_attempts:
        return None
    delay = requested if requested is not None else _interval(policy, attempt)
    total = _or_default(policy.total_duration_seconds, DEFAULT_TOTAL_DURATION)
    if now + delay - first_attempt_at > total:
        return None
    return delay


def _interval(policy: pb.RetryPolicy, attempt: int) -> timedelta:
    initial = _or_default(policy.initial_interval_seconds, DEFAULT_INITIAL_INTERVAL)
    maximum = _or_default(policy.maximum_interval_seconds, DEFAULT_MAXIMUM_INTERVAL)
    coefficient = policy.backoff_coefficient or DEFAULT_COEFFICIENT
    try:
        return min(initial * coefficient ** (attempt - 1), maximum)
    except OverflowError:
        return maximum


def _or_default(seconds: int, default: timedelta) -> timedelta:
    return timedelta(seconds=seconds) if seconds else default
