"""How a fault is planted in the table: a row with another rule, a Step or an RPC with other locks, limits or waits."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
from attrs import evolve

from dex_agents_model import table
from dex_agents_model.decision import (
    EndBranch,
    GoTo,
    Publish,
    RpcDecision,
    StepDecision,
    WaitDecision,
    Write,
)
from dex_agents_model.requests import Request
from dex_agents_model.steps import Step

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Rule: TypeAlias = Callable[..., Any]


def row(step: type[Step], on: type[Any], rule: Rule) -> Plant:
    """One row obeys ``rule``, which is given the rule that it replaces and then what that was given."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        good = table._ROWS[step, on]
        anywhere = frozenset({*good.to, *table.SPEC_OF, EndBranch})
        bad = evolve(good, rule=lambda *given: rule(good.rule, *given), to=anywhere)
        patch.setattr(table, "_ROWS", MappingProxyType({**table._ROWS, (step, on): bad}))

    return plant


def decisions(
    step: type[Step], on: type[Any], bend: Callable[[StepDecision], StepDecision]
) -> Plant:
    """One row decides as before, and each decision is bent."""

    def bent(good: Rule, *given: object) -> object:
        reaction = good(*given)
        return bend(reaction) if isinstance(reaction, StepDecision) else reaction

    return row(step, on, bent)


def spec(step: type[Step], **changes: Any) -> Plant:
    """One Step has other locks, limits or another wait."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        bad = evolve(table.SPEC_OF[step], **changes)
        patch.setattr(table, "SPEC_OF", MappingProxyType({**table.SPEC_OF, step: bad}))

    return plant


def waits(step: type[Step], bend: Callable[[WaitDecision], WaitDecision]) -> Plant:
    """One Step waits as before, and each wait is bent."""
    good: Any = table.SPEC_OF[step].wait
    return spec(step, wait=lambda *given: bend(good(*given)))


def rpc(request: type[Request], **changes: Any) -> Plant:
    """One RPC has other locks or another rule."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        bad = evolve(table.RPC_OF[request], **changes)
        patch.setattr(table, "RPC_OF", MappingProxyType({**table.RPC_OF, request: bad}))

    return plant


def replies(
    request: type[Request], bend: Callable[[RpcDecision[bool]], RpcDecision[bool]]
) -> Plant:
    """One RPC answers as before, and each decision is bent."""
    good: Any = table.RPC_OF[request].rule
    return rpc(request, rule=lambda *given: bend(good(*given)))


def both(*plants: Plant) -> Plant:
    """A rule that is kept in two places is dropped in both."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(patch)

    return plant


def writing(bend: Callable[[Write], Write | None]) -> Callable[[StepDecision], StepDecision]:
    """Each write of a decision is replaced by ``bend`` of it, or dropped."""

    def bent(decision: StepDecision) -> StepDecision:
        writes = tuple(w for each in decision.commit.writes if (w := bend(each)) is not None)
        return evolve(decision, commit=evolve(decision.commit, writes=writes))

    return bent


def without(*kinds: type[Any]) -> Callable[[Write], Write | None]:
    return lambda write: None if isinstance(write, kinds) else write


def publishing(
    bend: Callable[[tuple[Publish, ...]], tuple[Publish, ...]],
) -> Callable[[StepDecision], StepDecision]:
    """A decision publishes ``bend`` of what it publishes."""
    return lambda decision: evolve(
        decision, commit=evolve(decision.commit, publishes=bend(decision.commit.publishes))
    )


def going(
    bend: Callable[[tuple[Step, ...]], tuple[Step, ...]],
) -> Callable[[StepDecision], StepDecision]:
    """A decision goes on to ``bend`` of the Steps that it goes on to."""

    def bent(decision: StepDecision) -> StepDecision:
        steps = decision.next.steps if isinstance(decision.next, GoTo) else ()
        following = bend(steps)
        return evolve(decision, next=GoTo(following) if following else EndBranch())

    return bent
