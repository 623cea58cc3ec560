"""Those outside a session: what they may do next, and their RPCs on the way in.

An RPC takes its locks at once or is sent later: clients repeat one that met a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from attrs import fields, frozen

from .. import table
from ..requests import Request
from ..spec import Lock
from .actions import Action, AttemptFailed, Change, Committed, Does, Edge
from .channels import with_published
from .evaluation import Evaluator, Failed
from .faults import Fault
from .ledger import after_commit
from .scenario import Act, Answers, Scenario, requests_for
from .stored import snapshot_for
from .waiting import settled
from .world import Call, World

_MS: Final = timedelta(milliseconds=1)
_NO_SKEW: Final = timedelta(0)


@frozen
class Callers:
    """How a scenario's people reach its session."""

    scenario: Scenario
    _evaluator: Evaluator

    def edges(
        self, world: World, held: frozenset[Lock], answers_may_be_lost: bool
    ) -> Iterator[Edge]:
        """What people and their RPCs can do next."""
        for at, number in enumerate(world.acts_left):
            act = self.scenario.acts[number]
            if not _is_open(act, world):
                continue
            left = (*world.acts_left[:at], *world.acts_left[at + 1 :])
            for request in requests_for(act, number):
                if not held.isdisjoint(table.RPC_OF[type(request)].locks):
                    continue
                for skew in self.scenario.clock_skews:
                    yield self.sent(world._replace(acts_left=left), request, act=number, skew=skew)
        for at, call in enumerate(world.calls):
            yield from self._ended(world, at, call, answers_may_be_lost)

    def next_opening(self, world: World) -> int | None:
        """When the next act that still has to wait for its time may be done."""
        instants = (self.scenario.acts[number].at // _MS for number in world.acts_left)
        return min((each for each in instants if each > world.now_ms), default=None)

    def sent(
        self, world: World, request: Request, *, act: int | None = None, skew: timedelta = _NO_SKEW
    ) -> Edge:
        """``request`` reaches a Worker whose clock is off by ``skew``. Its locks must be free."""
        reads = table.RPC_OF[type(request)].reads
        call = Call(
            act,
            request,
            snapshot_for(reads, None, world.records, world.channels),
            began_ms=world.now_ms,
            at_ms=world.now_ms + skew // _MS,
        )
        after = world._replace(calls=(*world.calls, call))
        return Edge(Action(_name(call), Does.SEND, is_fate=True), after)

    def _ended(
        self, world: World, at: int, call: Call, answers_may_be_lost: bool
    ) -> Iterator[Edge]:
        reply = self._evaluator.reply(call.request, call.snapshot, call.at_ms)
        without = world._replace(calls=(*world.calls[:at], *world.calls[at + 1 :]))
        if isinstance(reply, Failed):
            cause = AttemptFailed(call.request, reply, retries_for_ever=False)
            yield Edge(Action(_name(call), Does.FAIL), without, (Change(world, without, cause),))
            return
        after = settled(
            without._replace(
                records=reply.edit.of(world.records),
                channels=with_published(world.channels, reply.messages),
                ledger=after_commit(world.ledger, None, reply),
            )
        )
        committed = Committed(call.request, None, reply, call.began_ms)
        yield Edge(Action(_name(call), Does.ANSWER), after, (Change(world, after, committed),))
        if answers_may_be_lost and call.act is not None:
            repeated = after._replace(
                faults_left=world.faults_left - 1,
                acts_left=tuple(sorted((*world.acts_left, call.act))),
            )
            yield Edge(
                Action(_name(call), Fault.LOST_ANSWER, is_fate=True),
                repeated,
                (Change(world, repeated, committed),),
            )


def _is_open(act: Act, world: World) -> bool:
    if act.at // _MS > world.now_ms:
        return False
    return not isinstance(act, Answers) or act.interrupt_id in world.ledger.raised


def _name(call: Call) -> str:
    values = [getattr(call.request, each.name) for each in fields(type(call.request))]
    shown = ", ".join(str(value) for value in values if value not in (None, ""))
    skew = call.at_ms - call.began_ms
    clock = f" by a Worker whose clock is off by {skew} ms" if skew else ""
    return f"{type(call.request).__name__}({shown}){clock}"
