"""Runs one Step against a port: at most one effect, exactly one commit. Dex and the simulator are its two ports."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from .decision import StepDecision, WaitDecision
from .effects import Effect, Occurrence, Outcome
from .errors import StateCorrupt
from .steps import Step
from .table import await_conditions, react
from .views import StepView


class StepPort(Protocol):
    """Everything that a Step may touch."""

    def waiting_view(self, step: Step) -> StepView:
        """What ``step`` loads before it waits: one snapshot, of the type of its Spec's ``wait_reads``."""
        ...

    async def view(self, step: Step) -> StepView:
        """What ``step`` loads before it executes: one snapshot, of the type that its Spec ``reads``."""
        ...

    def occurrence(self, step: Step) -> Occurrence:
        """Why ``step`` executes now."""
        ...

    def now(self) -> datetime:
        """The engine's time: aware, UTC."""
        ...

    async def perform(self, effect: Effect) -> Outcome:
        """Do it. Raises what the runner raises: the attempt fails and the engine tries again."""
        ...

    def commit(self, decision: StepDecision) -> None:
        """Make the decision durable as one change."""
        ...

    def commit_wait(self, decision: WaitDecision) -> None:
        """Make what a Step commits as it begins to wait durable, with the wait itself."""
        ...


def plan_wait(step: Step, port: StepPort) -> WaitDecision:
    """Decide what ``step`` waits for; at most one commit."""
    decision = await_conditions(step, port.waiting_view(step), port.now())
    port.commit_wait(decision)
    return decision


async def run_step(step: Step, port: StepPort) -> StepDecision:
    """Execute ``step``.

    Raises:
        ContractBroken: a runner's answer breaks its contract.
        StateCorrupt: storage or the table is broken.
    """
    view = await port.view(step)
    reaction = react(step, view, port.occurrence(step), port.now())
    if not isinstance(reaction, StepDecision):
        outcome = await port.perform(reaction)
        reaction = react(step, view, outcome, port.now())
    if not isinstance(reaction, StepDecision):
        raise StateCorrupt(f"{step} asked for a second effect: {reaction}")
    port.commit(reaction)
    return reaction
