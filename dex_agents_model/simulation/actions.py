"""What can happen next in a simulated world, and what it changes. Data only: `engine` says when and how."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from ..effects import Occurrence
from ..requests import Request
from ..steps import Step, TurnStep
from .evaluation import Attempt, Decided, Failed
from .faults import Fault
from .world import Execution, World


class Does(StrEnum):
    """The kinds of action that are no fault."""

    HAND_OUT = "is handed out"
    COMMIT = "commits"
    FAIL = "fails its attempt"
    SEND = "is sent"
    ANSWER = "commits and is answered"
    WAIT = "passes"


class Action(NamedTuple):
    """One step of a schedule: who, and what."""

    who: str
    does: Does | Fault
    is_fate: bool = False
    """Whether it comes from outside: a person acts, or a fault strikes. The rest is progress."""
    by: str = ""
    """The row of the table that a Step's execute obeyed."""

    def __str__(self) -> str:
        cited = f" by {self.by}" if self.by else ""
        return f"{self.who}: {self.does}{cited}"


@frozen(eq=False)
class Committed:
    """A Step's wait_for or execute, or an RPC, became durable.

    ``on`` is what the Step decided on; None for its wait_for and for an RPC. ``at_ms`` is the
    engine's time when its method began.
    """

    by: Step | Request
    on: Occurrence | None
    decided: Decided
    at_ms: int


@frozen(eq=False)
class Ran:
    """An attempt let the runner do something; ``again`` when a redelivery made it do so."""

    by: TurnStep
    attempt: Attempt
    again: bool


@frozen(eq=False)
class AttemptFailed:
    """An attempt ended with an exception that no fault brought about."""

    by: Step | Request
    failed: Failed
    retries_for_ever: bool


Cause: TypeAlias = Committed | Ran | AttemptFailed
"""What can change a world beside the passing of time."""


@frozen(eq=False)
class Change:
    """What an invariant looks at: the world on both sides of one cause."""

    before: World
    after: World
    cause: Cause

    def commit(self, *kinds: type[Any]) -> Committed | None:
        """The commit, if this is one and has a write or a publish of one of ``kinds``; of any, without them."""
        cause = self.cause
        if not isinstance(cause, Committed):
            return None
        return cause if not kinds or not cause.decided.kinds.isdisjoint(kinds) else None


class Edge(NamedTuple):
    """An action, the world that it leads to, and what is worth a look on the way.

    ``telling`` is the execution whose attempt now tells watchers what it has to tell: they hear it
    before the commit, and whether or not there will be one.
    """

    action: Action
    world: World
    changes: tuple[Change, ...] = ()
    telling: Execution | None = None
