"""What can be said of a Step and of an RPC: the vocabulary of the table, and nothing that decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

from attrs import field, frozen, validators

from .decision import Reaction, RpcDecision, WaitDecision
from .ids import TurnId
from .requests import Request
from .steps import Step
from .views import RpcView, StepView

S = TypeVar("S")
V = TypeVar("V")
O = TypeVar("O")  # noqa: E741 - O is an occurrence here, beside S(tep) and V(iew)
R = TypeVar("R")
_S = TypeVar("_S", contravariant=True)
_V = TypeVar("_V", contravariant=True)


class Lock(StrEnum):
    """The singleton records that a Step or an RPC may lock."""

    STATE = "AgentState"
    INTERRUPTS = "PendingInterrupts"
    REQUEST_IDS = "TakenRequestIds"


@frozen(kw_only=True)
class Limits:
    """How often and how long a Step may try.

    ``attempts=None`` tries for ever, and then there is no ``on_exhausted``. Intervals between
    attempts start at ``first_interval``, double, and are capped at ``longest_interval``.
    """

    attempts: int | None
    attempt_timeout: timedelta
    heartbeat_timeout: timedelta | None = None
    within: timedelta
    first_interval: timedelta = timedelta(seconds=1)
    longest_interval: timedelta = timedelta(seconds=30)
    on_exhausted: type[Step] | None = field(default=None)

    @on_exhausted.validator
    def _route_exactly_when_it_can_end(self, _: object, route: type[Step] | None) -> None:
        if (self.attempts is None) != (route is None):
            raise ValueError("a Step has a failure route exactly when its attempts are limited")


@frozen
class Row(Generic[_S, _V]):
    """On this occurrence, this rule; it may lead to these effects, Steps or the end of the branch."""

    on: type[Any]
    rule: Callable[[_S, _V, Any, datetime], Reaction]
    to: frozenset[type[Any]]


def on(
    occurrence: type[O], rule: Callable[[S, V, O, datetime], Reaction], *to: type[Any]
) -> Row[S, V]:
    return Row(occurrence, rule, frozenset(to))


def row_name(step: type[Any], on: type[Any]) -> str:
    """``Step.Occurrence``: by this name errors and simulated traces cite a row, and docs/transitions.md anchors it."""
    return f"{step.__name__}.{on.__name__}"


@frozen(kw_only=True)
class Spec(Generic[_S, _V]):
    """All that is to be said of one Step.

    ``wait`` is None for a Step that executes at once; it decides on ``wait_reads``. Locks are held
    from hand-out through retries. Once its turn is over a Step of a turn waits for nothing, does nothing and ends its
    branch; one that ``outlives_cancel`` goes on while the turn is merely cancelled.
    """

    step: type[Step]
    reads: type[StepView]
    wait: Callable[[_S, Any, datetime], WaitDecision] | None
    wait_reads: type[StepView]
    outlives_cancel: bool
    wait_locks: tuple[Lock, ...]
    execute_locks: tuple[Lock, ...]
    limits: Limits
    rows: tuple[Row[_S, _V], ...] = field(validator=validators.min_len(1))

    def is_over(self, step: Step, view: StepView) -> bool:
        """Whether ``step`` is of a turn that is over for it."""
        turn: TurnId | None = getattr(step, "turn", None)
        if turn is None:
            return False
        return view.has_ended(turn) if self.outlives_cancel else view.is_over(turn)


def spec(
    step: type[S],
    *,
    reads: type[V],
    limits: Limits,
    rows: tuple[Row[S, V], ...],
    wait: Callable[[S, V, datetime], WaitDecision] | None = None,
    wait_reads: type[V] | None = None,
    wait_locks: tuple[Lock, ...] = (),
    execute_locks: tuple[Lock, ...] = (),
    outlives_cancel: bool = False,
) -> Spec[S, V]:
    return Spec(
        step=cast("type[Step]", step),
        reads=cast("type[StepView]", reads),
        wait=wait,
        wait_reads=cast("type[StepView]", wait_reads or reads),
        outlives_cancel=outlives_cancel,
        wait_locks=wait_locks,
        execute_locks=execute_locks,
        limits=limits,
        rows=rows,
    )


@frozen(kw_only=True)
class RpcSpec(Generic[_S, _V]):
    """All that is to be said of one RPC. A transactional one commits at most once, or not at all.

    ``cancels`` are the Steps that it may end, ``to`` those that it may start.
    """

    request: type[Request]
    reads: type[RpcView]
    rule: Callable[[_S, _V, datetime], RpcDecision[Any]]
    locks: tuple[Lock, ...]
    transactional: bool
    cancels: tuple[type[Step], ...]
    to: tuple[type[Step], ...]


def rpc(
    request: type[S],
    *,
    reads: type[V],
    rule: Callable[[S, V, datetime], RpcDecision[R]],
    locks: tuple[Lock, ...] = (),
    transactional: bool = False,
    cancels: tuple[type[Any], ...] = (),
    to: tuple[type[Any], ...] = (),
) -> RpcSpec[S, V]:
    return RpcSpec(
        request=cast("type[Request]", request),
        reads=cast("type[RpcView]", reads),
        rule=rule,
        locks=locks,
        transactional=transactional,
        cancels=cancels,
        to=to,
    )
