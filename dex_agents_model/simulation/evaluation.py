"""What a Step or an RPC comes to, given its snapshot: the model's own entry points, asked once per question.

The rules are pure, so their answers are kept. Nothing here knows of a schedule, a fault or a world.
"""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import evolve, field, frozen

from .. import table
from ..calls import Runnable
from ..decision import GoTo, Publish, Write
from ..effects import Effect, Entered, ExecuteTool, Occurrence
from ..errors import StateCorrupt
from ..events import EventPayload, TurnEvent
from ..interpreter import plan_wait, run_step
from ..requests import Reply, Request
from ..runner import SummarizesHistory
from ..spec import row_name
from ..steps import Step
from .channels import Condition, condition_of, message_of
from .edits import Edit, edit_for
from .port import NeedsClaim, NeedsEventLoop, SimulatedPort, driven, moment
from .scenario import Scenario
from .stored import Records, read_view

V = TypeVar("V")


@frozen(eq=False)
class Decided:
    """A decision, ready to be committed."""

    writes: tuple[Write, ...]
    publishes: tuple[Publish, ...]
    events: tuple[TurnEvent, ...]
    edit: Edit
    messages: tuple[tuple[str, str], ...]
    next: tuple[Step, ...] = ()
    cancels: frozenset[type[Any]] = frozenset()
    condition: Condition | None = None
    reply: Reply | None = None
    kinds: frozenset[type[Any]] = field(init=False)
    """The classes of its writes and publishes."""

    @kinds.default
    def _of_writes_and_publishes(self) -> frozenset[type[Any]]:
        return frozenset(map(type, (*self.writes, *self.publishes)))


@frozen(eq=False)
class Failed:
    """An attempt that ended with an exception. ``corrupt`` is the model's own word for a defect."""

    detail: str
    error_type: str
    corrupt: bool = False


@frozen(eq=False)
class Attempt:
    """One attempt to execute a Step, up to its commit, or up to the claim that it needs.

    ``end`` is None when it cannot go on before its claim is answered. ``ran`` is what it let the
    runner do; ``last`` is the occurrence that it decided on, and ``by`` the row that it obeyed: none
    when its turn is over.
    """

    end: Decided | Failed | None
    ran: tuple[Effect, ...] = ()
    last: Occurrence = Entered()
    told: tuple[EventPayload, ...] = ()
    by: str = ""

    @property
    def started(self) -> tuple[Runnable, ...]:
        """The tool calls whose tool this attempt started."""
        return tuple(effect.record for effect in self.ran if isinstance(effect, ExecuteTool))


@frozen
class Evaluator:
    """The model and a scenario's runner as functions of their inputs."""

    scenario: Scenario
    _waits: dict[Any, Decided | Failed] = field(factory=dict, init=False, repr=False)
    _attempts: dict[Any, Attempt] = field(factory=dict, init=False, repr=False)
    _replies: dict[Any, Decided | Failed] = field(factory=dict, init=False, repr=False)

    def plan(
        self, step: Step, snapshot: Records, began_ms: int, deployment: int = 0
    ) -> Decided | Failed:
        """What ``step`` does before it waits, at a Worker of this ``deployment``."""
        now_ms = _whole_seconds(began_ms)
        key = (step, snapshot, now_ms, deployment)
        if key not in self._waits:
            self._waits[key] = self._plan(step, snapshot, now_ms, deployment)
        return self._waits[key]

    def attempt(
        self,
        step: Step,
        snapshot: Records,
        on: Occurrence,
        began_ms: int,
        number: int,
        granted: bool | None = None,
        deployment: int = 0,
    ) -> Attempt:
        """One attempt to execute ``step``; it begins with ``on``. ``granted``: what its claim came to."""
        now_ms = _whole_seconds(began_ms)
        key = (step, snapshot, on, now_ms, number, granted, deployment)
        if key not in self._attempts:
            view = self._read(table.SPEC_OF[type(step)].reads, snapshot, deployment)
            port = SimulatedPort(self.scenario, view, on, moment(now_ms), number, granted)
            end = self._end_of(step, snapshot, port)
            is_over = table.SPEC_OF[type(step)].is_over(step, view)
            by = "" if is_over else row_name(type(step), type(port.last))
            self._attempts[key] = Attempt(end, tuple(port.ran), port.last, tuple(port.told), by)
        return self._attempts[key]

    def reply(
        self, request: Request, snapshot: Records, at_ms: int, deployment: int = 0
    ) -> Decided | Failed:
        """What the session answers to ``request`` by a Worker whose clock says ``at_ms``."""
        key = (request, snapshot, at_ms, deployment)
        if key not in self._replies:
            self._replies[key] = self._reply(request, snapshot, at_ms, deployment)
        return self._replies[key]

    def _plan(
        self, step: Step, snapshot: Records, now_ms: int, deployment: int
    ) -> Decided | Failed:
        port = SimulatedPort(
            self.scenario,
            self._read(table.SPEC_OF[type(step)].wait_reads, snapshot, deployment),
            Entered(),
            moment(now_ms),
            1,
            None,
        )
        try:
            decision = plan_wait(step, port)
            return self._decided(
                decision.commit.writes,
                decision.commit.publishes,
                snapshot,
                events=decision.commit.events,
                condition=condition_of(decision.wait),
            )
        except Exception as error:  # noqa: BLE001 - whatever a rule raises is a finding
            return _failed(error)

    def _end_of(
        self, step: Step, snapshot: Records, port: SimulatedPort
    ) -> Decided | Failed | None:
        try:
            decision = driven(run_step(step, port))
            return self._decided(
                decision.commit.writes,
                decision.commit.publishes,
                snapshot,
                events=decision.commit.events,
                next_steps=decision.next.steps if isinstance(decision.next, GoTo) else (),
            )
        except NeedsClaim:
            return None
        except NeedsEventLoop:
            raise
        except Exception as error:  # noqa: BLE001 - a runner may raise anything: the attempt fails
            return _failed(error)

    def _reply(
        self, request: Request, snapshot: Records, at_ms: int, deployment: int
    ) -> Decided | Failed:
        entry = table.RPC_OF[type(request)]
        view = self._read(entry.reads, snapshot, deployment)
        try:
            decision = table.answer(request, view, moment(at_ms))
            decided = self._decided(
                decision.writes,
                decision.publishes,
                snapshot,
                next_steps=decision.next.steps if decision.next else (),
            )
            return evolve(decided, reply=decision.reply, cancels=frozenset(decision.cancel))
        except Exception as error:  # noqa: BLE001 - whatever a rule raises is a finding
            return _failed(error)

    def _read(self, view: type[V], snapshot: Records, deployment: int) -> V:
        runner = self.scenario.runner
        overhead = runner.estimate_overhead_tokens() if isinstance(runner, SummarizesHistory) else 0
        return read_view(
            view,
            snapshot,
            session_id=self.scenario.session_id,
            options=self.scenario.deployments[deployment],
            overhead_tokens=overhead,
        )

    def _decided(
        self,
        writes: tuple[Write, ...],
        publishes: tuple[Publish, ...],
        snapshot: Records,
        *,
        events: tuple[TurnEvent, ...] = (),
        next_steps: tuple[Step, ...] = (),
        condition: Condition | None = None,
    ) -> Decided:
        return Decided(
            writes=writes,
            publishes=publishes,
            events=events,
            edit=edit_for(writes, snapshot, self.scenario.runner),
            messages=tuple(map(message_of, publishes)),
            next=next_steps,
            condition=condition,
        )


def _whole_seconds(began_ms: int) -> int:
    """A Step is told when its first attempt began in whole seconds."""
    return began_ms // 1000 * 1000


def _failed(error: Exception) -> Failed:
    return Failed(str(error), type(error).__name__, isinstance(error, StateCorrupt))
