"""The engine's side of a session: hand-outs, locks, waits, commits, retries, failure routes, and what may go wrong.

A Step or an RPC acts on the snapshot that it was given and commits later; between the two, any other
may commit. No rule of the session is known here: the table is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from attrs import evolve, field, fields, frozen

from .. import table
from ..effects import AttemptsExhausted, Entered, Occurrence
from ..events import StepMethod
from ..records import AgentUserMessage
from ..spec import Lock
from ..steps import StartAgentSession, Step, TurnStep
from .actions import Action, AttemptFailed, Change, Committed, Does, Edge, Ran
from .callers import Callers
from .channels import with_published
from .evaluation import Attempt, Decided, Evaluator, Failed
from .faults import Fault, Faults
from .ledger import after_commit, after_start
from .scenario import Scenario
from .stored import snapshot_for
from .waiting import after_time, next_instant, settled
from .world import Execution, Ledger, Phase, World, held_locks, in_order, name_of

_LOST_WORKER: Final = Failed("the Worker was lost", "WorkerLost")
_COUNTED_ATTEMPTS: Final = (
    8  # of a Step that is tried for ever; by then its interval has its full length
)
_MS: Final = timedelta(milliseconds=1)


@frozen
class Engine:
    """All that can happen to one scenario's session."""

    scenario: Scenario
    faults: Faults
    _evaluator: Evaluator = field(init=False)
    callers: Callers = field(init=False)

    @_evaluator.default
    def _asks_the_model(self) -> Evaluator:
        return Evaluator(self.scenario)

    @callers.default
    def _answers_those_outside(self) -> Callers:
        return Callers(self.scenario, self._evaluator)

    def begin(self) -> World:
        """The session as its client started it."""
        text = self.scenario.first_message
        message = None if text is None else AgentUserMessage(text)
        return World(
            now_ms=0,
            records=(),
            channels=(),
            executions=(_queued(StartAgentSession(message)),),
            calls=(),
            acts_left=tuple(range(len(self.scenario.acts))),
            faults_left=self.faults.at_most,
            ledger=Ledger(),
        )

    def edges(self, world: World) -> Iterator[Edge]:
        """Everything that can happen next, in an order that depends on ``world`` alone."""
        held = held_locks(world)
        for at, execution in enumerate(world.executions):
            match execution.phase:
                case Phase.QUEUED:
                    yield from self._hand_out_wait(world, at, execution, held)
                case Phase.PLANNING:
                    yield from self._end_wait(world, at, execution)
                case Phase.READY:
                    yield from self._hand_out(world, at, execution, held)
                case Phase.RUNNING:
                    yield from self._end(world, at, execution)
                case Phase.PLANNING_AGAIN | Phase.RUNNING_AGAIN:
                    yield from self._hand_out_again(world, at, execution)
                case Phase.WAITING:
                    pass
        yield from self.callers.edges(world, held, self._may_strike(world, Fault.LOST_ANSWER))
        due = next_instant(world)
        if due is not None:
            yield Edge(Action("time", Does.WAIT), after_time(world, due))
        elif (opening := self.callers.next_opening(world)) is not None:
            yield Edge(Action("time", Does.WAIT, is_fate=True), after_time(world, opening))

    # --- wait_for ------------------------------------------------------------------------------

    def _hand_out_wait(
        self, world: World, at: int, execution: Execution, held: frozenset[Lock]
    ) -> Iterator[Edge]:
        spec = table.SPEC_OF[type(execution.step)]
        if held.isdisjoint(spec.wait_locks):
            yield Edge(
                Action(f"{execution.name}.wait_for", Does.HAND_OUT),
                _with(world, at, self._begun(world, execution, Phase.PLANNING)),
            )

    def _end_wait(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        who = f"{execution.name}.wait_for"
        planned = self._evaluator.plan(execution.step, execution.snapshot or (), execution.began_ms)
        if isinstance(planned, Failed):
            yield self._failing(world, at, execution, who, planned)
            return
        waiting = evolve(execution, snapshot=None, attempt=1, began_ms=0)
        condition = planned.condition
        if condition is None:
            waiting = evolve(waiting, phase=Phase.READY, on=Entered())
        else:
            limit = condition.at_most
            due_ms = None if limit is None else world.now_ms + limit // _MS
            waiting = evolve(waiting, phase=Phase.WAITING, condition=condition, due_ms=due_ms)
        yield self._committing(world, at, execution, who, planned, None, (waiting,))
        if self._may_strike(world, Fault.CRASH_BEFORE_COMMIT):
            yield _striking(world, at, execution, who, Fault.CRASH_BEFORE_COMMIT)

    # --- execute -------------------------------------------------------------------------------

    def _hand_out(
        self, world: World, at: int, execution: Execution, held: frozenset[Lock]
    ) -> Iterator[Edge]:
        spec = table.SPEC_OF[type(execution.step)]
        if not held.isdisjoint(spec.execute_locks):
            return
        who = f"{execution.name}.execute"
        running = self._begun(world, execution, Phase.RUNNING)
        attempt = self._attempt(running)
        yield _started(world, at, running, attempt, Action(who, Does.HAND_OUT))
        if attempt.started and self._may_strike(world, Fault.CRASH_BEFORE_EFFECT):
            yield _striking(world, at, running, who, Fault.CRASH_BEFORE_EFFECT)

    def _hand_out_again(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        if execution.due_ms is not None and execution.due_ms > world.now_ms:
            return
        who = f"{execution.name}.{execution.phase.method}"
        again = Action(f"{who}, attempt {execution.attempt}", Does.HAND_OUT)
        if execution.phase is Phase.PLANNING_AGAIN:
            planning = evolve(execution, phase=Phase.PLANNING, due_ms=None)
            yield Edge(again, _with(world, at, planning))
            return
        running = evolve(execution, phase=Phase.RUNNING, due_ms=None)
        attempt = self._attempt(running)
        yield _started(world, at, running, attempt, again)
        if attempt.started and self._may_strike(world, Fault.CRASH_BEFORE_EFFECT):
            yield _striking(world, at, running, who, Fault.CRASH_BEFORE_EFFECT)

    def _end(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        who = f"{execution.name}.execute"
        attempt = self._attempt(execution)
        if isinstance(attempt.end, Failed):
            yield self._failing(world, at, execution, who, attempt.end)
        else:
            following = tuple(map(_queued, attempt.end.next))
            yield self._committing(world, at, execution, who, attempt.end, attempt.last, following)
        if self._may_strike(world, Fault.CRASH_BEFORE_COMMIT):
            yield _striking(world, at, execution, who, Fault.CRASH_BEFORE_COMMIT)
        if attempt.started and self._may_strike(world, Fault.REDELIVERY):
            yield _started(
                world._replace(faults_left=world.faults_left - 1),
                at,
                execution,
                attempt,
                Action(who, Fault.REDELIVERY, is_fate=True),
            )

    def _attempt(self, execution: Execution) -> Attempt:
        return self._evaluator.attempt(
            execution.step,
            execution.snapshot or (),
            execution.on or Entered(),
            execution.began_ms,
            execution.attempt,
        )

    # --- both ----------------------------------------------------------------------------------

    def _begun(self, world: World, execution: Execution, phase: Phase) -> Execution:
        """``execution`` with the snapshot that all attempts of this method will act on."""
        reads = table.SPEC_OF[type(execution.step)].reads
        call = getattr(execution.step, "call", None)
        snapshot = snapshot_for(reads, call, world.records, world.channels)
        return evolve(execution, phase=phase, snapshot=snapshot, began_ms=world.now_ms)

    def _committing(
        self,
        world: World,
        at: int,
        execution: Execution,
        who: str,
        decided: Decided,
        on: Occurrence | None,
        following: tuple[Execution, ...],
    ) -> Edge:
        after = settled(
            world._replace(
                records=decided.edit.of(world.records),
                channels=with_published(world.channels, decided.messages),
                executions=in_order(
                    (*world.executions[:at], *world.executions[at + 1 :], *following)
                ),
                ledger=after_commit(world.ledger, on, decided),
            )
        )
        cause = Committed(execution.step, on, decided, execution.began_ms, execution.attempt)
        return Edge(Action(who, Does.COMMIT), after, (Change(world, after, cause),))

    def _failing(
        self, world: World, at: int, execution: Execution, who: str, failed: Failed
    ) -> Edge:
        after = _after_failure(world, at, execution, failed)
        limits = table.SPEC_OF[type(execution.step)].limits
        cause = AttemptFailed(execution.step, failed, limits.attempts is None)
        return Edge(Action(who, Does.FAIL), after, (Change(world, after, cause),))

    def _may_strike(self, world: World, fault: Fault) -> bool:
        return world.faults_left > 0 and fault in self.faults.kinds


def _queued(step: Step, on: Occurrence | None = None) -> Execution:
    if table.SPEC_OF[type(step)].wait is None:
        return Execution(name_of(step), step, Phase.READY, on or Entered())
    return Execution(name_of(step), step, Phase.QUEUED)


def _with(world: World, at: int, *executions: Execution) -> World:
    others = (*world.executions[:at], *world.executions[at + 1 :])
    return world._replace(executions=in_order((*others, *executions)))


def _started(world: World, at: int, running: Execution, attempt: Attempt, action: Action) -> Edge:
    """``running`` was handed out. What it lets the runner do, is done: nobody can tell when, until it commits."""
    after = _with(world, at, running)
    if not attempt.ran or not isinstance(running.step, TurnStep):
        return Edge(action, after)  # only a turn's Step has a runner to let do something
    ledger = after.ledger
    for record in attempt.started:
        ledger = after_start(ledger, record)
    after = after._replace(ledger=ledger)
    cause = Ran(running.step, running.attempt, attempt, again=action.does is Fault.REDELIVERY)
    return Edge(action, after, (Change(world, after, cause),))


def _striking(world: World, at: int, execution: Execution, who: str, fault: Fault) -> Edge:
    struck = world._replace(faults_left=world.faults_left - 1)
    return Edge(
        Action(who, fault, is_fate=True), _after_failure(struck, at, execution, _LOST_WORKER)
    )


def _after_failure(world: World, at: int, execution: Execution, failed: Failed) -> World:
    """The next attempt, after its backoff and with the same snapshot; or the failure route, with the same input."""
    limits = table.SPEC_OF[type(execution.step)].limits
    interval = min(limits.first_interval * 2 ** (execution.attempt - 1), limits.longest_interval)
    due_ms = world.now_ms + interval // _MS
    is_spent = limits.attempts is not None and (
        execution.attempt >= limits.attempts or due_ms - execution.began_ms > limits.within // _MS
    )
    if is_spent and limits.on_exhausted is not None:
        values = {
            each.name: getattr(execution.step, each.name) for each in fields(type(execution.step))
        }
        route = limits.on_exhausted(**values)
        return _with(world, at, _queued(route, AttemptsExhausted(failed.detail, failed.error_type)))
    backing_off = (
        Phase.PLANNING_AGAIN
        if execution.phase.method is StepMethod.WAIT_FOR
        else Phase.RUNNING_AGAIN
    )
    attempt = min(execution.attempt + 1, limits.attempts or _COUNTED_ATTEMPTS)
    return _with(world, at, evolve(execution, phase=backing_off, attempt=attempt, due_ms=due_ms))
