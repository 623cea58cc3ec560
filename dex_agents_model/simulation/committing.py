"""What one commit does to a simulated world: all of it at once, and then every wait that can end, ends."""

from __future__ import annotations

from .. import table
from ..effects import Entered, Occurrence
from ..steps import Step
from .channels import with_published, without
from .evaluation import Decided
from .ledger import after_commit
from .waiting import settled
from .world import Execution, Phase, World, in_order, name_of


def committed(
    world: World,
    decided: Decided,
    on: Occurrence | None = None,
    *,
    leaving: Execution | None = None,
    waiting: Execution | None = None,
) -> World:
    """``world`` after ``decided``: ``leaving`` made it and is over, or goes on as ``waiting``.

    Executions that it cancels are gone; a delivery of theirs that has not claimed its call may live
    on at its Worker.
    """
    executions = [each for each in world.executions if each is not leaving]
    stale = world.stale
    if decided.cancels:
        ended = [each for each in executions if type(each.step) in decided.cancels]
        executions = [each for each in executions if type(each.step) not in decided.cancels]
        stale = in_order((*stale, *(each for each in ended if each.phase is Phase.ASKING)))
    if waiting is not None:
        executions.append(waiting)
    return settled(
        world._replace(
            records=decided.edit.of(world.records),
            channels=with_published(without(world.channels, decided.edit.taken), decided.messages),
            executions=in_order((*executions, *map(queued, decided.next))),
            stale=stale,
            ledger=after_commit(world.ledger, on, decided),
        )
    )


def queued(step: Step, on: Occurrence | None = None) -> Execution:
    """A new execution of ``step``. It waits first, unless its Step waits for nothing."""
    if table.SPEC_OF[type(step)].wait is None:
        return Execution(name_of(step), step, Phase.READY, on or Entered())
    return Execution(name_of(step), step, Phase.QUEUED)


def placed(world: World, at: int, *executions: Execution) -> World:
    """``world`` with these in place of its execution number ``at``."""
    others = (*world.executions[:at], *world.executions[at + 1 :])
    return world._replace(executions=in_order((*others, *executions)))
