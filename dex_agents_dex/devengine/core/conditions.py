"""When a Step's Wait is over, and which Channel messages it takes.

A Wait offers candidates, each a set of timers and Channel conditions; the first feasible one wins
and only it consumes. Nothing here changes a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import MalformedResult

_LONGEST_TIMER_SECONDS: Final = 2**31 - 1


@frozen
class _Candidate:
    timers: tuple[int, ...]
    channels: tuple[int, ...]


@frozen
class Winner:
    """What the winning candidate takes: message counts by Channel condition index."""

    takes: dict[int, int]


def winner(
    condition: pb.WaitingCondition,
    has_fired: Sequence[bool],
    channel_size: Callable[[str], int],
) -> Winner | None:
    """The first feasible candidate, in declaration order, or None: the Step waits on.

    `has_fired` answers per timer condition, `channel_size` per Channel name.
    """
    for candidate in _candidates(condition):
        if not all(has_fired[index] for index in candidate.timers):
            continue
        takes = _fill(condition.channel_conditions, candidate.channels, channel_size)
        if takes is not None:
            return Winner(takes)
    return None


def require_well_formed(condition: pb.WaitingCondition) -> None:
    """Raise `MalformedResult` for a Wait that could never be evaluated."""
    if condition.sub_flow_conditions:
        raise MalformedResult("the dev engine does not implement sub-flow conditions")
    if not condition.timer_conditions and not condition.channel_conditions:
        raise MalformedResult("a Wait needs at least one condition")
    for channel in condition.channel_conditions:
        _require_sane_bounds(channel)
    if any(
        not 0 <= timer.duration_seconds <= _LONGEST_TIMER_SECONDS
        for timer in condition.timer_conditions
    ):
        raise MalformedResult("a timer's duration must be 0 to 2147483647 seconds")
    kind = condition.waiting_condition_type
    if kind == pb.WAITING_CONDITION_TYPE_ANY_COMBINATION_COMPLETED:
        _require_known_ids(condition)
    elif kind not in (
        pb.WAITING_CONDITION_TYPE_ALL_COMPLETED,
        pb.WAITING_CONDITION_TYPE_ANY_COMPLETED,
    ):
        raise MalformedResult(f"unknown kind of Wait: {kind}")


def _require_sane_bounds(channel: pb.ChannelCondition) -> None:
    name = channel.channel_name
    if not name:
        raise MalformedResult("a Channel condition needs a Channel name")
    if channel.at_least < 0 or channel.at_most < 0:
        raise MalformedResult(f"negative bound for Channel {name!r}")
    if (
        channel.HasField("at_least")
        and channel.HasField("at_most")
        and channel.at_least > channel.at_most
    ):
        raise MalformedResult(f"at_least exceeds at_most for Channel {name!r}")


def _require_known_ids(condition: pb.WaitingCondition) -> None:
    if not condition.condition_combinations:
        raise MalformedResult("any_combination_of needs at least one combination")
    known = {timer.condition_id for timer in condition.timer_conditions}
    known |= {channel.condition_id for channel in condition.channel_conditions}
    if "" in known:
        raise MalformedResult("any_combination_of needs an id for every condition")
    for combination in condition.condition_combinations:
        if not combination.condition_ids or not known.issuperset(combination.condition_ids):
            raise MalformedResult("a combination names an unknown condition, or none")


def _candidates(condition: pb.WaitingCondition) -> Iterable[_Candidate]:
    timers = range(len(condition.timer_conditions))
    channels = range(len(condition.channel_conditions))
    kind = condition.waiting_condition_type
    if kind == pb.WAITING_CONDITION_TYPE_ALL_COMPLETED:
        yield _Candidate(tuple(timers), tuple(channels))
    elif kind == pb.WAITING_CONDITION_TYPE_ANY_COMPLETED:
        for index in timers:
            yield _Candidate((index,), ())
        for index in channels:
            yield _Candidate((), (index,))
    else:
        for combination in condition.condition_combinations:
            ids = set(combination.condition_ids)
            yield _Candidate(
                tuple(i for i in timers if condition.timer_conditions[i].condition_id in ids),
                tuple(i for i in channels if condition.channel_conditions[i].condition_id in ids),
            )


def _fill(
    conditions: Sequence[pb.ChannelCondition],
    chosen: Sequence[int],
    channel_size: Callable[[str], int],
) -> dict[int, int] | None:
    """Reserve every minimum in order, then extend each in order; None if a minimum is missing."""
    left: dict[str, int] = {}
    takes: dict[int, int] = {}
    for index in chosen:
        name, need = conditions[index].channel_name, _minimum(conditions[index])
        available = left[name] if name in left else channel_size(name)
        if available < need:
            return None
        left[name], takes[index] = available - need, need
    for index in chosen:
        name, most = conditions[index].channel_name, _maximum(conditions[index])
        extra = left[name] if most is None else min(left[name], most - takes[index])
        left[name] -= extra
        takes[index] += extra
    return takes


def _minimum(condition: pb.ChannelCondition) -> int:
    if condition.HasField("at_least"):
        return condition.at_least
    return 0 if condition.HasField("at_most") else 1


def _maximum(condition: pb.ChannelCondition) -> int | None:
    if condition.HasField("at_most"):
        return condition.at_most
    return None if condition.HasField("at_least") else 1
