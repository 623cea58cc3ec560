"""One moment of a simulated session: what is stored, what runs, what is locked. Data only; nothing here moves.

Everything is immutable, so that a moment is a value: two that are equal have the same future.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from attrs import fields, frozen

from .. import table
from ..effects import Occurrence
from ..events import StepMethod
from ..ids import ToolCallId, TurnId
from ..requests import Request
from ..spec import Lock
from ..steps import Step
from .channels import Channels, Condition
from .stored import Records


class Phase(StrEnum):
    """Where one Step execution stands."""

    __hash__ = str.__hash__  # an Enum's own is many times slower, and every state is hashed

    QUEUED = "queued"
    PLANNING = "wait_for"
    PLANNING_AGAIN = "wait_for backs off"
    WAITING = "waits"
    READY = "ready"
    ASKING = "asks for its claim"
    RUNNING = "execute"
    RUNNING_AGAIN = "execute backs off"

    @property
    def method(self) -> StepMethod:
        """The method that this phase belongs to."""
        plans = self is Phase.QUEUED or self in _PLANNING
        return StepMethod.WAIT_FOR if plans else StepMethod.EXECUTE


_PLANNING = frozenset({Phase.PLANNING, Phase.PLANNING_AGAIN})
_RUNNING = frozenset({Phase.ASKING, Phase.RUNNING, Phase.RUNNING_AGAIN})


@frozen(cache_hash=True)
class Execution:
    """One Step execution. ``began_ms`` is when the first attempt of its method was handed out.

    ``due_ms`` is when its Timer fires or its backoff ends. ``on`` is why it executes. ``granted`` is
    what its claim came to; ``delivery`` tells apart those who were handed the same attempt;
    ``deployment`` is the number of its Worker's.
    """

    name: str
    step: Step
    phase: Phase
    on: Occurrence | None = None
    snapshot: Records | None = None
    began_ms: int = 0
    attempt: int = 1
    condition: Condition | None = None
    due_ms: int | None = None
    granted: bool | None = None
    delivery: int = 1
    deployment: int = 0

    @property
    def claimant(self) -> str:
        return f"{self.name}#{self.delivery}"


@frozen(cache_hash=True)
class Call:
    """An RPC between its snapshot and its commit. ``at_ms`` is what its Worker's clock said.

    ``act`` is the number of the scenario's act that it belongs to, if it belongs to one;
    ``claimant`` is the delivery that waits for its reply, if one does; ``deployment`` as above.
    """

    act: int | None
    request: Request
    snapshot: Records
    began_ms: int
    at_ms: int
    claimant: str | None = None
    deployment: int = 0


class Started(NamedTuple):
    """How often a tool call was started; ``is_single``: its effect allows one attempt.

    Of a call that may start again, ``times`` is 1 however often it did: two such worlds have one future.
    """

    turn: TurnId
    call: ToolCallId
    times: int
    is_single: bool


@frozen(cache_hash=True)
class Ledger:
    """What the world has promised and seen. No rule reads it: it exists for the invariants alone.

    ``accepted`` has the ID of every request that was accepted, and names every message; ``queued``
    and ``steering`` those of them that nothing has taken, in order; ``heard`` are the texts that
    steered the running turn, and
    ``unheard`` names those of them that no committed model call was given. ``raised`` are all
    questions ever asked; ``answered`` the accepted answers that no Step has applied; ``started`` the
    calls of the running turn, and every single-attempt call.
    """

    accepted: frozenset[str] = frozenset()
    queued: tuple[str, ...] = ()
    steering: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    raised: frozenset[str] = frozenset()
    answered: tuple[tuple[str, bool], ...] = ()
    started: tuple[Started, ...] = ()

    def starts_of(self, turn: TurnId, call: ToolCallId) -> int:
        """How often the tool of this call was started; at most 1 for one that may start again."""
        return next((each.times for each in self.started if each[:2] == (turn, call)), 0)


class World(NamedTuple):
    """A session at one moment. Executions are sorted by name, so that equal moments are equal values.

    ``stale`` are deliveries that the engine has given up and whose Workers may live on, each before
    its claim.
    """

    now_ms: int
    records: Records
    channels: Channels
    executions: tuple[Execution, ...]
    stale: tuple[Execution, ...]
    calls: tuple[Call, ...]
    acts_left: tuple[int, ...]
    faults_left: int
    ledger: Ledger


def name_of(step: Step) -> str:
    """``Step(input)``, without what is as always: unique among live executions as long as the session is sound."""
    values = [(each, getattr(step, each.name)) for each in fields(type(step))]
    shown = (str(getattr(value, "text", value)) for each, value in values if value != each.default)
    return f"{type(step).__name__}({', '.join(shown)})"


def of_deployment(number: int) -> str:
    """What a trace says of a Worker that is of another deployment than the first."""
    return f" at a Worker of deployment {number + 1}" if number else ""


def held_locks(world: World) -> frozenset[Lock]:
    """What is locked: by RPCs under way, and by Steps from hand-out through retries and backoff."""
    held: set[Lock] = set()
    for execution in world.executions:
        if execution.phase in _RUNNING:
            held.update(table.SPEC_OF[type(execution.step)].execute_locks)
        elif execution.phase in _PLANNING:
            held.update(table.SPEC_OF[type(execution.step)].wait_locks)
    for call in world.calls:
        held.update(table.RPC_OF[type(call.request)].locks)
    return frozenset(held)


def in_order(executions: Iterable[Execution]) -> tuple[Execution, ...]:
    return tuple(sorted(executions, key=_name))


def _name(execution: Execution) -> str:
    return execution.name
