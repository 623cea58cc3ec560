"""A story in the simulator: what a session must look like at each moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from attrs import define, field

from dex_agents_dex.testing import (
    EXECUTE_COMPLETED_EVENT,
    EXECUTE_FAILED_EVENT,
    WAIT_FOR_COMPLETED_EVENT,
    WAIT_FOR_FAILED_EVENT,
)
from dex_agents_model.effects import BuildUnfinishedTurn, CallModel, Effect, ExecuteTool, Summarize
from dex_agents_model.events import StepMethod
from dex_agents_model.requests import ApprovalsPage, ListApprovals
from dex_agents_model.simulation import INVARIANTS, Does, Fault, SimulatedWorld
from dex_agents_model.simulation.actions import AttemptFailed, Committed, Edge
from dex_agents_model.simulation.actions import Ran as RunnerRan
from dex_agents_model.simulation.invariants import no_runner_breaks_its_contract
from dex_agents_model.simulation.world import Execution, Phase, World
from dex_agents_model.steps import CallSingleAttemptTool, CallTool, RunModel, Step

from .moment import Course, Ended, Moment, Ran, anonymous, stretches, told, untimed
from .story import Act, LetsGo, Story, TimePasses, WorkerDies

_COMPLETED: Final = {
    StepMethod.WAIT_FOR: WAIT_FOR_COMPLETED_EVENT,
    StepMethod.EXECUTE: EXECUTE_COMPLETED_EVENT,
}
_FAILED: Final = {
    StepMethod.WAIT_FOR: WAIT_FOR_FAILED_EVENT,
    StepMethod.EXECUTE: EXECUTE_FAILED_EVENT,
}
_KEPT: Final = tuple(each for each in INVARIANTS if each is not no_runner_breaks_its_contract)
"""The runner of a story may."""
_BACKING_OFF: Final = (Phase.PLANNING_AGAIN, Phase.RUNNING_AGAIN)


def simulated(story: Story, *, is_redelivered: bool = False) -> Course:
    """How the story goes: its moments are those before each act, and its end.

    ``is_redelivered``: an attempt whose Worker dies before it was heard of is handed out again,
    as the same attempt; otherwise it is spent, as is any other.
    """
    simulation = _Simulation(story, is_redelivered)
    moments = tuple(simulation.moments())
    return Course(moments, () if story.cuts_off else told(simulation.world.events))


@define
class _Simulation:
    story: Story
    is_redelivered: bool
    world: SimulatedWorld = field(init=False)
    held: set[str] = field(init=False)
    latest: World | None = None
    history: list[Ended] = field(factory=list)
    ran: list[Ran] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.held = set(self.story.held)
        self.world = SimulatedWorld(
            self.story.runner,
            options=self.story.options,
            first_message=self.story.first_message,
            invariants=_KEPT,
        )

    def moments(self) -> Iterator[Moment]:
        reply: bool | None = None
        for act in self.story.acts:
            self._run()
            if not isinstance(act, TimePasses):
                yield self._moment(reply)
            reply = self._do(act)
        self._run()
        yield self._moment(reply)

    def _moment(self, reply: bool | None) -> Moment:
        page = self.world.ask(ListApprovals())
        assert isinstance(page, ApprovalsPage)
        return Moment(
            reply,
            tuple(sorted(self.ran)),
            stretches(self.history),
            anonymous(self.world.snapshot()),
            untimed(page.approvals),
        )

    def _do(self, act: Act) -> bool | None:
        match act:
            case LetsGo(name):
                self.held.remove(name)
                return None
            case TimePasses():
                self._take(next(e for e in self.world.ahead() if e.action.does is Does.WAIT))
                return None
            case WorkerDies():
                self._lose_worker()
                return None
            case request:
                return self.world.ask(request) is True

    def _run(self) -> None:
        """Go on until nothing happens but what is held, or what a deadline brings."""
        while (edge := self._next()) is not None:
            self._take(edge)

    def _next(self) -> Edge | None:
        executions = () if self.latest is None else self.latest.executions
        backs_off = any(each.phase in _BACKING_OFF for each in executions)
        for edge in self.world.ahead():
            if edge.action.is_fate or self._is_held(edge):
                continue
            if edge.action.does is not Does.WAIT or backs_off:
                return edge
        return None

    def _is_held(self, edge: Edge) -> bool:
        """Whether ``edge`` would end a call that is held."""
        return any(
            isinstance(change.cause, Committed | AttemptFailed)
            and _name_of(change.cause.by) in self.held
            for change in edge.changes
        )

    def _lose_worker(self) -> None:
        """Every call that is held was running, and nothing else was."""
        for execution in () if self.latest is None else self.latest.executions:
            if execution.phase is not Phase.RUNNING or _name_of(execution.step) not in self.held:
                continue
            if isinstance(execution.step, RunModel) and self.is_redelivered:
                # A model call that is held has told nothing, a tool call that it started.
                self.ran.append(Ran("model", execution.step.turn, execution.attempt))
                continue
            crash = (f"{execution.name}.execute", Fault.CRASH_BEFORE_COMMIT)
            struck = next(edge for edge in self.world.ahead() if edge.action[:2] == crash)
            self._take(struck)
            if all(each.name != execution.name for each in struck.world.executions):
                self._ended(_FAILED[StepMethod.EXECUTE], execution)

    def _take(self, edge: Edge) -> None:
        self.world.take(edge)
        self.latest = edge.world
        for change in edge.changes:
            cause = change.cause
            match cause:
                case RunnerRan(attempt=attempt):
                    assert edge.telling is not None
                    for effect in attempt.ran:
                        self.ran += _calls(effect, edge.telling.attempt)
                case Committed(by=by, on=on) if isinstance(by, Step):
                    method = StepMethod.WAIT_FOR if on is None else StepMethod.EXECUTE
                    execution = _execution_of(by, change.before)
                    self._ended(_COMPLETED[method], execution)
                case AttemptFailed(by=by) if isinstance(by, Step):
                    execution = _execution_of(by, change.before)
                    if all(each.name != execution.name for each in change.after.executions):
                        self._ended(_FAILED[execution.phase.method], execution)

    def _ended(self, event_type: str, execution: Execution) -> None:
        step_type = type(execution.step).__name__
        self.history.append(Ended(event_type, step_type, execution.attempt))


def _execution_of(step: Step, world: World) -> Execution:
    return next(each for each in world.executions if each.step == step)


def _name_of(by: object) -> str | None:
    match by:
        case RunModel(turn):
            return str(turn)
        case CallTool(turn, call) | CallSingleAttemptTool(turn, call):
            return f"{turn}/{call}"
        case _:
            return None


def _calls(effect: Effect, attempt: int) -> tuple[Ran, ...]:
    """The call of a model or a tool that ``effect`` is; what only builds items is none."""
    match effect:
        case CallModel(turn=turn):
            return (Ran("model", turn, attempt),)
        case Summarize(turn=turn):
            return (Ran("summary", turn, attempt),)
        case ExecuteTool(record=record):
            key = f"{record.turn_id}/{record.tool_call_id}"
            return (Ran(record.tool_name, key, attempt),)
        case BuildUnfinishedTurn():
            return ()
        case _:
            assert_never(effect)
