"""What an example of a rule is. No example may live here: each stands beside its topic, in ``CASES``.

Examples are data, so that the tests of the table can ask which rows they take.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeAlias

from attrs import frozen

import tests.rules
from dex_agents_model.decision import Reaction, RpcDecision, WaitDecision
from dex_agents_model.effects import Occurrence
from dex_agents_model.requests import Reply, Request
from dex_agents_model.steps import Step
from dex_agents_model.table import answer, await_conditions, react
from dex_agents_model.views import RpcView, StepView

from .samples import NOW


@frozen
class Reacts:
    """Given ``view``, when ``step`` meets ``on``, then it reacts so. ``claim`` is ``<rule>__<claim>``."""

    claim: str
    step: Step
    view: StepView
    on: Occurrence
    then: Reaction
    now: datetime = NOW

    def result(self) -> Reaction:
        return react(self.step, self.view, self.on, self.now)


@frozen
class Waits:
    """Given ``view``, when ``step`` is to wait, then for this."""

    claim: str
    step: Step
    view: StepView
    then: WaitDecision
    now: datetime = NOW

    def result(self) -> WaitDecision:
        return await_conditions(self.step, self.view, self.now)


@frozen
class Answers:
    """Given ``view``, when a client sends ``request``, then it gets this answer."""

    claim: str
    request: Request
    view: RpcView
    then: RpcDecision[Reply]
    now: datetime = NOW

    def result(self) -> RpcDecision[Reply]:
        return answer(self.request, self.view, self.now)


Case: TypeAlias = Reacts | Waits | Answers


def claim_of(case: Case) -> str:
    return case.claim


def all_cases() -> Iterator[Case]:
    """Every example of every topic."""
    for module in iter_modules(tests.rules.__path__):
        if module.name.startswith("test_"):
            yield from getattr(import_module(f"{tests.rules.__name__}.{module.name}"), "CASES", ())
