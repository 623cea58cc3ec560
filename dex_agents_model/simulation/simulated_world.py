"""One simulated session to take in hand: speak, answer, let it run, strike it, look at it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from .. import table
from ..events import AgentEvent
from ..ids import InterruptId, TurnId
from ..policy import AgentSessionOptions
from ..records import AgentUserMessage, SteeringMessage
from ..requests import (
    AgentSnapshot,
    CancelTurn,
    GetAgentSnapshot,
    Reply,
    Request,
    ResolveInterrupt,
    SendUserMessage,
    SteerUserMessage,
)
from ..runner import AgentFrameworkRunner
from ..steps import Step
from .actions import Action, Change, Committed, Does, Edge, Ran
from .engine import Engine
from .faults import Fault, Faults
from .invariants import INVARIANTS, Invariant, named
from .narrator import Narrator
from .progress import why_it_must_not_rest
from .scenario import EPOCH, Scenario
from .waiting import after_time
from .world import Phase, held_locks

_MS: Final = timedelta(milliseconds=1)
_MANY_STEPS: Final = 100_000
_BACKING_OFF: Final = (Phase.PLANNING_AGAIN, Phase.RUNNING_AGAIN)


class PromiseBroken(AssertionError):
    """An invariant does not hold. The message names it and lists what happened since the session began."""


class SimulatedWorld:
    """A session with an engine, Workers and a clock of its own. Each change is held against ``invariants``."""

    def __init__(
        self,
        runner: AgentFrameworkRunner,
        *,
        options: AgentSessionOptions | None = None,
        first_message: str | None = None,
        invariants: tuple[Invariant, ...] = INVARIANTS,
    ) -> None:
        self._engine = Engine(
            Scenario(
                name="world",
                about="a session in hand",
                runner=runner,
                options=options or AgentSessionOptions(),
                first_message=first_message,
            ),
            Faults(_MANY_STEPS),
        )
        self._invariants = invariants
        self._sent = 0
        self._moment = self._engine.begin()
        self._narrator = Narrator(self._engine)
        self.happened: list[str] = []
        """What happened, a line each."""
        self.events: list[AgentEvent] = []
        """What watchers were told, in order."""

    @property
    def now(self) -> datetime:
        """The engine's time."""
        return EPOCH + self._moment.now_ms * _MS

    # --- people ------------------------------------------------------------------------------

    def say(self, text: str) -> bool:
        """A user speaks. Whether the message was taken."""
        self._sent += 1
        message = AgentUserMessage(text, f"message-{self._sent}")
        return self.ask(SendUserMessage(message)) is True

    def steer(self, text: str, *, rejects_pending_approvals: bool = True) -> bool:
        """A user speaks to the turn that runs. Whether the message was taken."""
        self._sent += 1
        message = AgentUserMessage(text, f"message-{self._sent}")
        return (
            self.ask(SteerUserMessage(SteeringMessage(message, rejects_pending_approvals))) is True
        )

    def cancel(self, turn: TurnId) -> bool:
        """A person stops a turn. Whether it still ran."""
        return self.ask(CancelTurn(turn)) is True

    def resolve(
        self,
        interrupt_id: InterruptId,
        *,
        approved: bool,
        rejection_message: str | None = None,
        edited_arguments: str | None = None,
    ) -> bool:
        """A person answers a question. Whether the answer counts."""
        self._sent += 1
        request = ResolveInterrupt(
            interrupt_id,
            approved,
            rejection_message=rejection_message,
            edited_arguments=edited_arguments,
            request_id=f"answer-{self._sent}",
        )
        return self.ask(request) is True

    def snapshot(self) -> AgentSnapshot:
        """What a user interface shows now.

        Raises:
            PromiseBroken: the session does not tell.
        """
        reply = self.ask(GetAgentSnapshot())
        if not isinstance(reply, AgentSnapshot):
            raise PromiseBroken(self._with_history(f"the snapshot is {reply!r:.200}"))
        return reply

    def ask(self, request: Request) -> Reply | None:
        """Send any request and bring it to its end. Steps that hold its locks go on first.

        Raises:
            PromiseBroken: the locks never become free, or an invariant breaks.
        """
        locks = table.RPC_OF[type(request)].locks
        while not held_locks(self._moment).isdisjoint(locks):
            if self._advance() is None:
                raise PromiseBroken(self._with_history(f"what {request} locks is never free"))
        self.take(self._engine.callers.sent(self._moment, request))
        edge = next(
            edge
            for edge in self.ahead()
            if edge.action.does in (Does.ANSWER, Does.FAIL)
            and edge.action.who.startswith(type(request).__name__)
        )
        self.take(edge)
        cause = edge.changes[0].cause
        return cause.decided.reply if isinstance(cause, Committed) else None

    # --- the world ---------------------------------------------------------------------------

    def ahead(self) -> tuple[Edge, ...]:
        """All that can happen next."""
        return tuple(self._engine.edges(self._moment))

    def take(self, edge: Edge) -> None:
        """Let one thing happen.

        Raises:
            PromiseBroken: it breaks an invariant.
        """
        self.events += self._narrator.hear(self._moment, edge)
        self._moment = edge.world
        self.happened.append(str(edge.action))
        for change in edge.changes:
            for invariant in self._invariants:
                for complaint in invariant(change):
                    raise PromiseBroken(self._with_history(f"{named(invariant)}: {complaint}"))

    def run(self) -> None:
        """Go on until the session waits for people. Backoffs pass; a deadline does only with them.

        Raises:
            PromiseBroken: an invariant breaks, or the session stands still, or never does.
        """
        for _ in range(_MANY_STEPS):
            if self._advance() is None:
                break
        else:
            raise PromiseBroken(self._with_history("the session never comes to rest"))
        for complaint in why_it_must_not_rest(self._moment):
            raise PromiseBroken(self._with_history(complaint))

    def run_until_tool_starts(self, call: str) -> None:
        """Go on until the tool of this call has been started.

        Raises:
            LookupError: it never is.
        """
        for _ in range(_MANY_STEPS):
            edge = self._advance()
            if edge is None:
                break
            if any(_starts(change, call) for change in edge.changes):
                return
        raise LookupError(f"the tool of {call} never starts")

    def strike(self, fault: Fault, step: type[Step]) -> None:
        """Let ``fault`` befall an execution of ``step``.

        Raises:
            LookupError: it cannot befall one now.
        """
        for edge in self.ahead():
            if edge.action.does is fault and edge.action.who.startswith(f"{step.__name__}("):
                self.take(edge)
                return
        raise LookupError(f"{fault.name} cannot befall {step.__name__} now")

    def pass_time(self, span: timedelta) -> None:
        """Let time pass at once; every Timer that is due by then fires."""
        then = self._moment.now_ms + span // _MS
        self.take(Edge(Action("time", Does.WAIT), after_time(self._moment, then)))

    def _advance(self) -> Edge | None:
        """Take the first thing that happens by itself; None when nothing does before people act."""
        backs_off = any(each.phase in _BACKING_OFF for each in self._moment.executions)
        for edge in self.ahead():
            if not edge.action.is_fate and (edge.action.does is not Does.WAIT or backs_off):
                self.take(edge)
                return edge
        return None

    def _with_history(self, complaint: str) -> str:
        lines = (f"{number:4}. {line}" for number, line in enumerate(self.happened, start=1))
        return "\n".join((complaint, *lines))


def _starts(change: Change, call: str) -> bool:
    cause = change.cause
    return isinstance(cause, Ran) and any(
        record.tool_call_id == call for record in cause.attempt.started
    )
