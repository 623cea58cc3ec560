"""Those outside a session, and its own Steps when they ask it for a claim: what they send, and how it ends.

An RPC takes its locks at once or is sent later: clients repeat one that met a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Final

from attrs import field, fields, frozen

from .. import table
from ..ids import InterruptId
from ..requests import ClaimToolCall, Request, ResolveInterrupt
from ..spec import Lock
from ..steps import CallStep
from .actions import Action, AttemptFailed, Change, Committed, Does, Edge
from .channels import holds
from .committing import committed
from .evaluation import Evaluator, Failed
from .faults import Fault
from .ledger import after_reply
from .scenario import Scenario, is_open, requests_for
from .stored import interrupts_in, snapshot_for, state_in
from .world import Call, Execution, World, held_locks, of_deployment

_MS: Final = timedelta(milliseconds=1)
_NO_SKEW: Final = timedelta(0)


@frozen
class Callers:
    """How requests reach a scenario's session."""

    scenario: Scenario
    _evaluator: Evaluator
    _workers: tuple[tuple[timedelta, int], ...] = field(init=False)

    @_workers.default
    def _of_each_clock_and_deployment(self) -> tuple[tuple[timedelta, int], ...]:
        return tuple(product(self.scenario.clock_skews, range(len(self.scenario.deployments))))

    def acts(self, world: World, held: frozenset[Lock]) -> Iterator[Edge]:
        """What people can do next."""
        turns = state.turn_count if (state := state_in(world.records)) else 0
        for at, number in enumerate(world.acts_left):
            act = self.scenario.acts[number]
            if act.at // _MS > world.now_ms or not is_open(act, turns, world.ledger.raised):
                continue
            left = (*world.acts_left[:at], *world.acts_left[at + 1 :])
            for request in requests_for(act, number):
                if not held.isdisjoint(table.RPC_OF[type(request)].locks):
                    continue
                for skew, deployment in self._workers:
                    yield self.sent(
                        world._replace(acts_left=left),
                        request,
                        act=number,
                        skew=skew,
                        deployment=deployment,
                    )

    def answers(
        self, world: World, *, approved: bool, late: bool = False, skew: timedelta = _NO_SKEW
    ) -> Iterator[Edge]:
        """Answers to what is asked or, when ``late``, to whatever was ever asked."""
        if not held_locks(world).isdisjoint(table.RPC_OF[ResolveInterrupt].locks):
            return
        asked = [each.interrupt_id for each in interrupts_in(world.records)]
        if late:
            asked = [InterruptId(each) for each in sorted(world.ledger.raised)]
        for interrupt_id in asked:
            yield self.sent(world, ResolveInterrupt(interrupt_id, approved), skew=skew)

    def claims(
        self, world: World, delivery: Execution, held: frozenset[Lock], *, is_fate: bool = False
    ) -> Iterator[Edge]:
        """A Step asks its session for the right to run its call, unless it is asking already."""
        step, claimant = delivery.step, delivery.claimant
        if not isinstance(step, CallStep) or any(c.claimant == claimant for c in world.calls):
            return
        if held.isdisjoint(table.RPC_OF[ClaimToolCall].locks):
            request = ClaimToolCall(step.turn, step.call, claimant)
            edge = self.sent(world, request, claimant=claimant)
            yield edge._replace(action=edge.action._replace(is_fate=is_fate))

    def next_opening(self, world: World) -> int | None:
        """When the next act that still has to wait for its time may be done."""
        instants = (self.scenario.acts[number].at // _MS for number in world.acts_left)
        return min((each for each in instants if each > world.now_ms), default=None)

    def sent(
        self,
        world: World,
        request: Request,
        *,
        act: int | None = None,
        claimant: str | None = None,
        skew: timedelta = _NO_SKEW,
        deployment: int = 0,
    ) -> Edge:
        """``request`` reaches a Worker of ``deployment`` whose clock is off by ``skew``. Its locks must be free."""
        reads = table.RPC_OF[type(request)].reads
        call = Call(
            act,
            request,
            snapshot_for(reads, getattr(request, "call", None), world.records, world.channels),
            began_ms=world.now_ms,
            at_ms=world.now_ms + skew // _MS,
            claimant=claimant,
            deployment=deployment,
        )
        after = world._replace(calls=(*world.calls, call))
        return Edge(Action(_name(call), Does.SEND, is_fate=True), after)

    def ends(self, world: World, call: Call, answer_may_be_lost: bool) -> Iterator[Edge]:
        """How ``call`` can end. A deletion whose message is gone undoes it all, and the client repeats it."""
        reply = self._evaluator.reply(call.request, call.snapshot, call.at_ms, call.deployment)
        without = world._replace(calls=tuple(each for each in world.calls if each is not call))
        repeatable = without._replace(acts_left=_with_act(world, call))
        if isinstance(reply, Failed):
            cause = AttemptFailed(call.request, reply, retries_for_ever=True)
            yield Edge(Action(_name(call), Does.FAIL), without, (Change(world, without, cause),))
            return
        if not all(holds(world.channels, *message) for message in reply.edit.taken):
            yield Edge(Action(_name(call), Does.FAIL), repeatable)
            return
        after = committed(without, reply)
        ledger = after_reply(after.ledger, call.request, reply.reply)
        after = after._replace(ledger=ledger)
        cause_of = Committed(call.request, None, reply, call.began_ms)
        yield Edge(Action(_name(call), Does.ANSWER), after, (Change(world, after, cause_of),))
        if answer_may_be_lost:
            lost = after._replace(faults_left=world.faults_left - 1, acts_left=repeatable.acts_left)
            action = Action(_name(call), Fault.LOST_ANSWER, is_fate=True)
            yield Edge(action, lost, (Change(world, lost, cause_of),))


def _with_act(world: World, call: Call) -> tuple[int, ...]:
    return world.acts_left if call.act is None else tuple(sorted((*world.acts_left, call.act)))


def _name(call: Call) -> str:
    values = [getattr(call.request, each.name) for each in fields(type(call.request))]
    shown = ", ".join(str(value) for value in values if value not in (None, ""))
    skew = call.at_ms - call.began_ms
    clock = f" by a Worker whose clock is off by {skew} ms" if skew else ""
    return f"{type(call.request).__name__}({shown}){clock}{of_deployment(call.deployment)}"
