"""The Dex side of the model's StepPort: views in, one commit out, and the runner in between."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import uuid4

import dex
from attrs import field, frozen

from dex_agents_model.decision import Commit, StepDecision, WaitDecision
from dex_agents_model.effects import (
    AttemptsExhausted,
    DeadlineReached,
    Effect,
    Entered,
    InterruptAnswered,
    Occurrence,
    Outcome,
    ToolResultsArrived,
    UserSpoke,
    UserSteered,
)
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.events import StepMethod
from dex_agents_model.ids import InterruptId, SessionId, ToolCallId, TurnId
from dex_agents_model.performing import Invocation, perform
from dex_agents_model.policy import AgentSessionOptions
from dex_agents_model.records import AgentInterruptResolution
from dex_agents_model.requests import ClaimToolCall
from dex_agents_model.runner import AgentFrameworkRunner, RunnerFailed, SummarizesHistory
from dex_agents_model.steps import AwaitToolApproval, AwaitUserMessage, ResumeTurn, Step
from dex_agents_model.table import SPEC_OF
from dex_agents_model.views import StepView
from dex_agents_model.waits import (
    ForInterruptResolution,
    ForToolResults,
    ForUserMessage,
    NoWait,
    Wait,
)

from .beating import beating
from .engine_clock import EngineClock
from .entries import Entries
from .entry_texts import ReadEntries, StoredTexts
from .event_message import EventMessage
from .event_stream import AttemptEvents, RunnerEvents
from .known import Known
from .reading import SessionReader
from .record_cache import RecordCache
from .schema import (
    INTERRUPT_RESOLUTIONS,
    QUEUED_USER_MESSAGES,
    STEERING_MESSAGES,
    TOOL_CALL_RESULTS,
)
from .step_reading import StepReader
from .turn_trace import Watch, unwatched
from .writing import SessionWriter

_BEAT: Final = timedelta(seconds=20)


class OwnSession(Protocol):
    """What a Step asks its own session for: the right to run a single-attempt call, and stored entries.

    It is asked of the Step's own run: another session may have the ID by now, or have it on another server.
    """

    async def claim(self, session: SessionId, run_id: str, request: ClaimToolCall) -> bool:
        """Whether the session grants the claim.

        Raises:
            AgentSessionError: it could not be asked.
        """
        ...

    async def read_entries(
        self,
        session: SessionId,
        run_id: str,
        entries: dex.AttributeMap[Any],
        request: ReadEntries,
    ) -> StoredTexts:
        """Entries that Dex did not load for the Step.

        Raises:
            AgentSessionError: it could not be asked.
        """
        ...


@frozen(kw_only=True)
class SessionBinding:
    """What every Step of one Flow type shares on one Worker."""

    runner: AgentFrameworkRunner
    options: AgentSessionOptions
    events: dex.Stream[EventMessage]
    clock: EngineClock
    own_session: OwnSession
    cache: RecordCache = field(factory=RecordCache)
    watch: Watch = field(default=unwatched)

    def overhead_tokens(self) -> int:
        """What the runner says that it adds to each model input; nobody counts it where there is no window."""
        runner = self.runner
        if self.options.compaction is None or not isinstance(runner, SummarizesHistory):
            return 0
        return runner.estimate_overhead_tokens()


class DexStepPort:
    """One invocation of one Step's wait_for or execute. It must be closed before the invocation ends."""

    def __init__(
        self, binding: SessionBinding, context: dex.AsyncContext, method: StepMethod
    ) -> None:
        self._binding = binding
        self._context = context
        self._events = AttemptEvents(context, method, binding.events)
        self.known = Known()
        self._reader = StepReader(
            session=SessionReader(context, binding.options),
            entries=Entries(self._ask, context),
            cache=binding.cache,
            known=self.known,
            overhead_tokens=binding.overhead_tokens,
        )
        if context.attempt == 1:
            binding.clock.learn(context.first_attempt_at)

    def close(self) -> None:
        """Watchers are told what they were not yet."""
        self._events.flush()

    def waiting_view(self, step: Step) -> StepView:
        return self._reader.waiting_view(SPEC_OF[type(step)].wait_reads, step)

    async def view(self, step: Step) -> StepView:
        return await self._reader.view(SPEC_OF[type(step)].reads, step)

    def occurrence(self, step: Step) -> Occurrence:
        lost = self._context.recovery_error
        if lost is not None:
            return AttemptsExhausted(lost.detail, lost.error_type)
        match step:
            case AwaitUserMessage():
                for steering in STEERING_MESSAGES.results(self._context):
                    return UserSteered(steering)
                (message,) = QUEUED_USER_MESSAGES.results(self._context)
                return UserSpoke(message)
            case AwaitToolApproval(turn, call):
                key = InterruptId.of(turn, call)
                for signal in INTERRUPT_RESOLUTIONS.results(self._context, key):
                    if isinstance(signal, AgentInterruptResolution):
                        return InterruptAnswered(signal)
                return DeadlineReached() if self._context.has_timer_fired() else Entered()
            case ResumeTurn():
                return ToolResultsArrived()
            case _:
                return Entered()

    def now(self) -> datetime:
        return self._context.first_attempt_at

    async def perform(self, effect: Effect) -> Outcome:
        events = RunnerEvents(self._events, effect.turn)
        try:
            with beating(self._beat, _BEAT):
                return await perform(effect, self._binding.runner, self._invocation(events))
        except asyncio.CancelledError as error:
            if _is_cancelled_from_outside():
                raise
            raise RunnerFailed("CancelledError: the runner's call cancelled itself") from error
        finally:
            events.close()

    def commit(self, decision: StepDecision) -> None:
        self._stage(decision.commit)

    def commit_wait(self, decision: WaitDecision) -> None:
        self._stage(decision.commit)

    def _stage(self, commit: Commit) -> None:
        writer = SessionWriter(self._context, self._binding.runner, self.known)
        for write in commit.writes:
            writer.write(write)
        for publish in commit.publishes:
            writer.publish(publish)
        for event in commit.events:
            self._events.tell(event)

    def _invocation(self, events: RunnerEvents) -> Invocation:
        return Invocation(
            session=SessionId(self._context.flow_id),
            attempt=self._context.attempt,
            options=self._binding.options,
            events=events,
            tell=events.tell,
            heartbeat=self._beat,
            claim=self._claim,
        )

    async def _beat(self) -> None:
        self._events.flush()  # watchers hear of a tool's start before it runs, as the engine does
        await self._context.heartbeat()

    async def _claim(self, turn: TurnId, call: ToolCallId) -> bool:
        # The claimant is new for each delivery, and the same for the retries of its one request.
        request = ClaimToolCall(turn, call, claimant=uuid4().hex)
        session, run_id = SessionId(self._context.flow_id), self._context.run_id
        return await self._binding.own_session.claim(session, run_id, request)

    async def _ask(self, entries: dex.AttributeMap[Any], request: ReadEntries) -> StoredTexts:
        session, run_id = SessionId(self._context.flow_id), self._context.run_id
        return await self._binding.own_session.read_entries(session, run_id, entries, request)


def dex_wait(wait: Wait) -> dex.Wait:
    """The model's wait in Dex's words."""
    match wait:
        case NoWait():
            return dex.Wait.skip_immediately()
        case ForUserMessage():
            return dex.Wait.any_of(STEERING_MESSAGES.for_one(), QUEUED_USER_MESSAGES.for_one())
        case ForToolResults(count):
            return dex.Wait.until(TOOL_CALL_RESULTS.for_n(count))
        case ForInterruptResolution(interrupt_id, None):
            return dex.Wait.until(INTERRUPT_RESOLUTIONS.for_one(interrupt_id))
        case ForInterruptResolution(interrupt_id, at_most) if at_most is not None:
            return dex.Wait.any_of(
                INTERRUPT_RESOLUTIONS.for_one(interrupt_id), dex.Timer.by_duration(at_most)
            )
        case _:
            raise StateCorrupt(f"no Dex wait stands for {wait}")


def _is_cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
