"""When a session may stand still: it waits for people, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from .channels import INTERRUPT_RESOLUTIONS, QUEUED_USER_MESSAGES, steering_in
from .stored import interrupts_in
from .world import Phase, World


def why_it_must_not_rest(world: World) -> Iterator[str]:
    """``world``, in which nothing can happen by itself, and what is wrong with that: a sentence each."""
    asked = {each.interrupt_id for each in interrupts_in(world.records)}
    waits_for_people = False
    for execution in world.executions:
        if execution.phase is not Phase.WAITING or execution.condition is None:
            yield f"{execution.name} is stuck: {execution.phase}"
            continue
        for channel, _ in execution.condition.any_of:
            if channel == QUEUED_USER_MESSAGES:
                waits_for_people = True
            elif channel.startswith(INTERRUPT_RESOLUTIONS):
                waits_for_people = True
                if channel.removeprefix(INTERRUPT_RESOLUTIONS) not in asked:
                    yield f"{execution.name} waits for an answer that nobody can give any more"
    if not waits_for_people:
        names = ", ".join(each.name for each in world.executions) or "nothing"
        yield f"the session stands still and waits for nobody; live: {names}"
    steering = steering_in(world.channels)
    if asked and any(each.rejects_pending_approvals for each in steering):
        yield f"a steering message rejects what waits for approval, and it waits still: {sorted(asked)}"
    if world.ledger.answered:
        yield f"accepted answers were never applied: {world.ledger.answered}"
