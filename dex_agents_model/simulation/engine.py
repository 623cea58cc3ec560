"""The engine's side of a session: hand-outs, locks, waits, commits, retries, and what may go wrong.

A Step or an RPC acts on the snapshot that it was given and commits later; between the two, any other
may commit. No rule of the session is known here: the table is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from attrs import evolve, field, frozen

from .. import table
from ..effects import Entered
from ..events import TurnEvent
from ..records import AgentUserMessage
from ..spec import Lock
from ..steps import StartAgentSession, TurnStep
from .actions import Action, Change, Committed, Does, Edge, Ran
from .callers import Callers
from .committing import committed, placed, queued
from .evaluation import Attempt, Decided, Evaluator, Failed
from .failing import failing, striking, with_stale
from .faults import Fault, Faults
from .ledger import after_start
from .scenario import Scenario
from .stored import snapshot_for
from .waiting import after_time, next_instant
from .world import Call, Execution, Ledger, Phase, World, held_locks, of_deployment

_MS: Final = timedelta(milliseconds=1)
_AGAIN: Final = {Phase.PLANNING_AGAIN: Phase.PLANNING, Phase.RUNNING_AGAIN: Phase.RUNNING}


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
    def _share_the_evaluator(self) -> Callers:
        return Callers(self.scenario, self._evaluator)

    def begin(self) -> World:
        """The session as its client started it."""
        text = self.scenario.first_message
        message = None if text is None else AgentUserMessage(text)
        return World(
            now_ms=0,
            records=(),
            channels=(),
            executions=(queued(StartAgentSession(message)),),
            stale=(),
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
                case Phase.ASKING:
                    yield from self._ask(world, at, execution, held)
                case Phase.RUNNING:
                    yield from self._end(world, at, execution)
                case Phase.PLANNING_AGAIN | Phase.RUNNING_AGAIN:
                    yield from self._hand_out_again(world, at, execution)
                case Phase.WAITING:
                    pass
        for delivery in world.stale:
            yield from self.callers.claims(world, delivery, held, is_fate=True)
        yield from self.callers.acts(world, held)
        for call in world.calls:
            for edge in self.callers.ends(world, call, self._may_strike(world, Fault.LOST_ANSWER)):
                yield self._claim_answered(edge, call)
        yield from self._time(world)

    def _time(self, world: World) -> Iterator[Edge]:
        """To the next moment at which something is due or a person may act; without people it ends with the former."""
        due, opening = next_instant(world), self.callers.next_opening(world)
        instants = [each for each in (due, opening) if each is not None]
        if instants:
            action = Action("time", Does.WAIT, is_fate=due is None)
            yield Edge(action, after_time(world, min(instants)))

    # --- wait_for ------------------------------------------------------------------------------

    def _hand_out_wait(
        self, world: World, at: int, execution: Execution, held: frozenset[Lock]
    ) -> Iterator[Edge]:
        spec = table.SPEC_OF[type(execution.step)]
        if held.isdisjoint(spec.wait_locks):
            for planning in self._anywhere(self._begun(world, execution, Phase.PLANNING)):
                where = of_deployment(planning.deployment)
                action = Action(f"{execution.name}.wait_for{where}", Does.HAND_OUT)
                yield Edge(action, placed(world, at, planning), telling=planning)

    def _end_wait(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        planned = self._planned(execution)
        if isinstance(planned, Failed):
            yield failing(world, at, execution, planned, is_timed=self.scenario.is_timed)
            return
        waiting = Execution(execution.name, execution.step, Phase.READY, Entered())
        if planned.condition is not None:
            limit = planned.condition.at_most
            waiting = Execution(
                execution.name,
                execution.step,
                Phase.WAITING,
                condition=planned.condition,
                due_ms=None if limit is None else world.now_ms + limit // _MS,
            )
        after = committed(world, planned, leaving=execution, waiting=waiting)
        cause = Committed(execution.step, None, planned, execution.began_ms)
        action = Action(f"{execution.name}.wait_for", Does.COMMIT)
        yield Edge(action, after, (Change(world, after, cause),))
        yield from self._strikes(world, at, execution, Fault.CRASH_BEFORE_COMMIT)

    # --- execute -------------------------------------------------------------------------------

    def _hand_out(
        self, world: World, at: int, execution: Execution, held: frozenset[Lock]
    ) -> Iterator[Edge]:
        if held.isdisjoint(table.SPEC_OF[type(execution.step)].execute_locks):
            for running in self._anywhere(self._begun(world, execution, Phase.RUNNING)):
                where = of_deployment(running.deployment)
                action = Action(f"{execution.name}.execute{where}", Does.HAND_OUT)
                yield from self._handed_out(world, at, running, action)

    def _hand_out_again(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        if execution.due_ms is not None and execution.due_ms > world.now_ms:
            return
        who = f"{execution.name}.{execution.phase.method}, attempt {execution.attempt}"
        again = evolve(execution, phase=_AGAIN[execution.phase], due_ms=None)
        for handed in self._anywhere(again):
            action = Action(f"{who}{of_deployment(handed.deployment)}", Does.HAND_OUT)
            if handed.phase is Phase.PLANNING:
                yield Edge(action, placed(world, at, handed), telling=handed)
            else:
                yield from self._handed_out(world, at, handed, action)

    def _handed_out(
        self, world: World, at: int, running: Execution, action: Action
    ) -> Iterator[Edge]:
        attempt = self._attempt(running)
        if attempt.end is None:
            yield Edge(action, placed(world, at, evolve(running, phase=Phase.ASKING)))
            return
        yield _started(world, at, running, attempt, action)
        if attempt.started:
            yield from self._strikes(world, at, running, Fault.CRASH_BEFORE_EFFECT)

    def _ask(
        self, world: World, at: int, execution: Execution, held: frozenset[Lock]
    ) -> Iterator[Edge]:
        yield from self.callers.claims(world, execution, held)
        yield from self._strikes(world, at, execution, Fault.CRASH_BEFORE_EFFECT)
        if self._may_strike(world, Fault.REDELIVERY):
            yield from self._redelivered(with_stale(world, execution), at, execution)

    def _end(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        attempt = self._attempt(execution)
        match attempt.end:
            case Failed() as failed:
                yield failing(world, at, execution, failed, is_timed=self.scenario.is_timed)
            case Decided() as decided:
                after = committed(world, decided, attempt.last, leaving=execution)
                cause = Committed(execution.step, attempt.last, decided, execution.began_ms)
                action = Action(f"{execution.name}.execute", Does.COMMIT, by=attempt.by)
                yield Edge(action, after, (Change(world, after, cause),))
        yield from self._strikes(world, at, execution, Fault.CRASH_BEFORE_COMMIT)
        if attempt.started and self._may_strike(world, Fault.REDELIVERY):
            yield from self._redelivered(world, at, execution)

    def _redelivered(self, world: World, at: int, execution: Execution) -> Iterator[Edge]:
        """The same attempt is handed to another Worker, which must claim a fenced call in its own name."""
        struck = world._replace(faults_left=world.faults_left - 1)
        for again in self._anywhere(evolve(execution, granted=None, deployment=0)):
            where = of_deployment(again.deployment)
            action = Action(f"{execution.name}.execute{where}", Fault.REDELIVERY, is_fate=True)
            attempt = self._attempt(again)
            if attempt.end is None:
                asking = evolve(again, phase=Phase.ASKING, delivery=execution.delivery + 1)
                yield Edge(action, placed(struck, at, asking))
            else:
                yield _started(struck, at, again, attempt, action)

    def _claim_answered(self, edge: Edge, call: Call) -> Edge:
        """Once a claim is answered, whoever asked goes on: runs the tool, or fails its attempt."""
        if call.claimant is None or edge.action.does is not Does.ANSWER:
            return edge
        granted = any(
            isinstance(each.cause, Committed) and each.cause.decided.reply is True
            for each in edge.changes
        )
        world = edge.world
        for at, execution in enumerate(world.executions):
            if execution.phase is Phase.ASKING and execution.claimant == call.claimant:
                running = evolve(execution, phase=Phase.RUNNING, granted=granted)
                told = _started(world, at, running, self._attempt(running), edge.action)
                return told._replace(changes=(*edge.changes, *told.changes))
        delivery = next(each for each in world.stale if each.claimant == call.claimant)
        left = tuple(each for each in world.stale if each is not delivery)
        running = evolve(delivery, phase=Phase.RUNNING, granted=granted)
        told = _ran(world._replace(stale=left), running, self._attempt(running), edge.action)
        return told._replace(changes=(*edge.changes, *told.changes), telling=None)

    def told_by(self, telling: Execution) -> tuple[TurnEvent, ...]:
        """What the attempt that an edge names tells watchers, in order."""
        if telling.phase is Phase.PLANNING:
            planned = self._planned(telling)
            return () if isinstance(planned, Failed) else planned.events
        attempt = self._attempt(telling)
        turn = getattr(telling.step, "turn", None)
        said = () if turn is None else tuple(TurnEvent(turn, each) for each in attempt.told)
        return (*said, *attempt.end.events) if isinstance(attempt.end, Decided) else said

    # --- both ----------------------------------------------------------------------------------

    def _anywhere(self, execution: Execution) -> Iterator[Execution]:
        """``execution``, handed to a Worker of each deployment."""
        yield execution
        for deployment in range(1, len(self.scenario.deployments)):
            yield evolve(execution, deployment=deployment)

    def _planned(self, execution: Execution) -> Decided | Failed:
        return self._evaluator.plan(
            execution.step, execution.snapshot or (), execution.began_ms, execution.deployment
        )

    def _attempt(self, execution: Execution) -> Attempt:
        return self._evaluator.attempt(
            execution.step,
            execution.snapshot or (),
            execution.on or Entered(),
            execution.began_ms,
            execution.attempt,
            execution.granted,
            execution.deployment,
        )

    def _begun(self, world: World, execution: Execution, phase: Phase) -> Execution:
        """``execution`` with the snapshot that all attempts of this method will act on."""
        spec = table.SPEC_OF[type(execution.step)]
        reads = spec.wait_reads if phase is Phase.PLANNING else spec.reads
        call = getattr(execution.step, "call", None)
        snapshot = snapshot_for(reads, call, world.records, world.channels)
        return evolve(execution, phase=phase, snapshot=snapshot, began_ms=world.now_ms)

    def _strikes(self, world: World, at: int, execution: Execution, fault: Fault) -> Iterator[Edge]:
        if self._may_strike(world, fault):
            yield striking(world, at, execution, fault, is_timed=self.scenario.is_timed)

    def _may_strike(self, world: World, fault: Fault) -> bool:
        return world.faults_left > 0 and fault in self.faults.kinds


def _started(world: World, at: int, running: Execution, attempt: Attempt, action: Action) -> Edge:
    """``running`` goes on. What it lets the runner do, is done: nobody can tell when, until it commits."""
    return _ran(placed(world, at, running), running, attempt, action)


def _ran(world: World, running: Execution, attempt: Attempt, action: Action) -> Edge:
    # Only a Step of a turn lets the runner do something.
    if not attempt.ran or not isinstance(running.step, TurnStep):
        return Edge(action, world, telling=running)
    ledger = world.ledger
    for record in attempt.started:
        ledger = after_start(ledger, record)
    after = world._replace(ledger=ledger)
    cause = Ran(running.step, attempt, again=action.does is Fault.REDELIVERY)
    return Edge(action, after, (Change(world, after, cause),), telling=running)
