"""What a Step or an RPC comes to, given its snapshot: the model's own entry points, asked once per question.

The rules are pure, so their answers are kept. Nothing here knows of a schedule, a fault or a world.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from .. import table
from ..calls import Runnable, ToolCallStatus
from ..decision import GoTo, Publish, StepDecision, WaitDecision, Write
from ..effects import Effect, Entered, ExecuteTool, Occurrence, Outcome
from ..errors import StateCorrupt
from ..events import CustomEvent, EventPayload, ReasoningDelta, TextDelta, TurnEvent
from ..events import ToolCallFinished as ToolCallFinishedEvent
from ..events import ToolCallStarted as ToolCallStartedEvent
from ..ids import ToolCallId
from ..interpreter import plan_wait, run_step
from ..requests import Reply, Request
from ..runner import perform
from ..steps import Step
from ..views import StepView
from .channels import Condition, condition_of, message_of
from .scenario import EPOCH, Scenario
from .stored import Edit, Records, edit_for, read_view

T = TypeVar("T")


class NeedsEventLoop(Exception):
    """A runner waits for something that only an event loop brings about: wrap it in `OnItsOwnLoop`."""


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


@frozen(eq=False)
class Failed:
    """An attempt that ended with an exception. ``corrupt`` is the model's own word for a defect."""

    detail: str
    error_type: str
    corrupt: bool = False


@frozen(eq=False)
class Attempt:
    """One whole attempt to execute a Step, up to its commit.

    ``ran`` is what it let the runner do; ``last`` is the occurrence that it decided on.
    """

    end: Decided | Failed
    ran: tuple[Effect, ...] = ()
    last: Occurrence = Entered()
    told: tuple[EventPayload, ...] = ()

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

    def plan(self, step: Step, snapshot: Records, began_ms: int) -> Decided | Failed:
        """What ``step`` does before it waits."""
        key = (step, snapshot, began_ms // 1000)
        if key not in self._waits:
            self._waits[key] = self._plan(step, snapshot, began_ms)
        return self._waits[key]

    def attempt(
        self, step: Step, snapshot: Records, on: Occurrence, began_ms: int, number: int
    ) -> Attempt:
        """One attempt to execute ``step``; it begins with ``on``."""
        key = (step, snapshot, on, began_ms // 1000, number)
        if key not in self._attempts:
            self._attempts[key] = self._attempt(step, snapshot, on, began_ms, number)
        return self._attempts[key]

    def reply(self, request: Request, snapshot: Records, at_ms: int) -> Decided | Failed:
        """What the session answers to ``request`` by a Worker whose clock says ``at_ms``."""
        key = (request, snapshot, at_ms)
        if key not in self._replies:
            self._replies[key] = self._reply(request, snapshot, at_ms)
        return self._replies[key]

    def _plan(self, step: Step, snapshot: Records, began_ms: int) -> Decided | Failed:
        port = _Port(self.scenario, self._view(step, snapshot), Entered(), _moment(began_ms), 1)
        try:
            decision = plan_wait(step, port)
            return self._decided(
                decision.commit.writes,
                decision.commit.publishes,
                events=decision.commit.events,
                condition=condition_of(decision.wait),
            )
        except Exception as error:  # noqa: BLE001 - whatever a rule raises is a finding
            return _failed(error)

    def _attempt(
        self, step: Step, snapshot: Records, on: Occurrence, began_ms: int, number: int
    ) -> Attempt:
        port = _Port(self.scenario, self._view(step, snapshot), on, _moment(began_ms), number)
        end: Decided | Failed
        try:
            decision = _driven(run_step(step, port))
            end = self._decided(
                decision.commit.writes,
                decision.commit.publishes,
                events=decision.commit.events,
                next_steps=decision.next.steps if isinstance(decision.next, GoTo) else (),
            )
        except NeedsEventLoop:
            raise
        except Exception as error:  # noqa: BLE001 - a runner may raise anything: the attempt fails
            end = _failed(error)
        return Attempt(end, tuple(port.ran), port.last, tuple(port.told))

    def _reply(self, request: Request, snapshot: Records, at_ms: int) -> Decided | Failed:
        entry = table.RPC_OF[type(request)]
        view = read_view(entry.reads, snapshot, self.scenario.session_id, self.scenario.options)
        try:
            decision = table.answer(request, view, _moment(at_ms))
            return evolve(self._decided(decision.writes, decision.publishes), reply=decision.reply)
        except Exception as error:  # noqa: BLE001 - whatever a rule raises is a finding
            return _failed(error)

    def _view(self, step: Step, snapshot: Records) -> StepView:
        reads = table.SPEC_OF[type(step)].reads
        return read_view(reads, snapshot, self.scenario.session_id, self.scenario.options)

    def _decided(
        self,
        writes: tuple[Write, ...],
        publishes: tuple[Publish, ...],
        *,
        events: tuple[TurnEvent, ...] = (),
        next_steps: tuple[Step, ...] = (),
        condition: Condition | None = None,
    ) -> Decided:
        return Decided(
            writes=writes,
            publishes=publishes,
            events=events,
            edit=edit_for(writes, self.scenario.runner),
            messages=tuple(map(message_of, publishes)),
            next=next_steps,
            condition=condition,
        )


class _Port:
    """A StepPort over one snapshot, and the runner's event writer. What it is told to commit, it keeps."""

    def __init__(
        self, scenario: Scenario, view: StepView, on: Occurrence, now: datetime, attempt: int
    ) -> None:
        self._scenario, self._view, self._now, self._attempt = scenario, view, now, attempt
        self.last = on
        self.ran: list[Effect] = []
        self.told: list[EventPayload] = []

    def view(self, step: Step) -> StepView:
        return self._view

    def occurrence(self, step: Step) -> Occurrence:
        return self.last

    def now(self) -> datetime:
        return self._now

    async def perform(self, effect: Effect) -> Outcome:
        self.ran.append(effect)
        self.last = outcome = await perform(
            effect,
            self._scenario.runner,
            session=self._scenario.session_id,
            attempt=self._attempt,
            options=self._scenario.options,
            events=self,
            heartbeat=_beat,
        )
        return outcome

    def commit(self, decision: StepDecision) -> None:
        """The decision is what `run_step` returns; when it is committed is the world's to say."""

    def commit_wait(self, decision: WaitDecision) -> None:
        """As for `commit`."""

    def write_text_delta(self, text: str) -> None:
        self.told.append(TextDelta(text))

    def write_reasoning_delta(self, text: str) -> None:
        self.told.append(ReasoningDelta(text))

    def write_tool_call_started(self, tool_call_id: ToolCallId, tool_name: str) -> None:
        self.told.append(ToolCallStartedEvent(tool_call_id, tool_name))

    def write_tool_call_finished(
        self, tool_call_id: ToolCallId, tool_name: str, status: ToolCallStatus
    ) -> None:
        self.told.append(ToolCallFinishedEvent(tool_call_id, tool_name, status))

    def write_event(self, name: str, data: str) -> None:
        self.told.append(CustomEvent(name, data))


async def _beat() -> None:
    """A simulated Worker needs no heartbeat: the schedule says when it is lost."""


def _moment(since_epoch_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=since_epoch_ms)


def _failed(error: Exception) -> Failed:
    return Failed(str(error), type(error).__name__, isinstance(error, StateCorrupt))


def _driven(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns. It may await whatever is there at once.

    Raises:
        NeedsEventLoop: ``work`` waits for something else.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise NeedsEventLoop("a simulated runner must not suspend: wrap it as OnItsOwnLoop(runner)")
