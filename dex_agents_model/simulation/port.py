"""The simulator's StepPort: one snapshot in, and whatever the runner does. It commits nothing."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ..calls import ToolCallStatus
from ..decision import StepDecision, WaitDecision
from ..effects import Effect, Occurrence, Outcome
from ..events import CustomEvent, EventPayload, ReasoningDelta, TextDelta
from ..events import ToolCallFinished as ToolCallFinishedEvent
from ..events import ToolCallStarted as ToolCallStartedEvent
from ..ids import ToolCallId, TurnId
from ..performing import Invocation, perform
from ..steps import Step
from ..views import StepView
from .scenario import EPOCH, Scenario

T = TypeVar("T")


class NeedsClaim(BaseException):
    """An attempt cannot go on before its claim is answered. No rule and no runner may catch it."""


class NeedsEventLoop(Exception):
    """A runner waits for something that only an event loop brings about: wrap it in `OnItsOwnLoop`."""


class SimulatedPort:
    """A StepPort over one snapshot, and the runner's event writer. What it is told to commit, it keeps."""

    def __init__(
        self,
        scenario: Scenario,
        view: StepView,
        on: Occurrence,
        now: datetime,
        attempt: int,
        granted: bool | None,
    ) -> None:
        self._scenario, self._view, self._now = scenario, view, now
        self._attempt, self._granted = attempt, granted
        self.last = on
        self.ran: list[Effect] = []
        self.told: list[EventPayload] = []

    def waiting_view(self, step: Step) -> StepView:
        return self._view

    async def view(self, step: Step) -> StepView:
        return self._view

    def occurrence(self, step: Step) -> Occurrence:
        return self.last

    def now(self) -> datetime:
        return self._now

    async def perform(self, effect: Effect) -> Outcome:
        where = Invocation(
            session=self._scenario.session_id,
            attempt=self._attempt,
            options=self._view.options,
            events=self,
            tell=self.told.append,
            heartbeat=_beat,
            claim=self._claim,
        )
        if self._granted is not False:
            self.ran.append(effect)
        self.last = outcome = await perform(effect, self._scenario.runner, where)
        return outcome

    async def _claim(self, turn: TurnId, call: ToolCallId) -> bool:
        if self._granted is None:
            self.ran.clear()
            raise NeedsClaim
        return self._granted

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


def moment(since_epoch_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=since_epoch_ms)


def driven(work: Coroutine[Any, Any, T]) -> T:
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
