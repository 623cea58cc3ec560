"""The trace that a turn belongs to, and who may watch its Steps. OpenTelemetry may not be imported here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Protocol, TypeAlias

import dex
from attrs import frozen

from dex_agents_model.ids import TurnId
from dex_agents_model.interpreter import StepPort
from dex_agents_model.steps import Step


@frozen(kw_only=True)
class TurnTrace:
    """Where the spans of ``turn`` hang: a W3C ``traceparent``, and when the turn began.

    Kept with the session from the turn's beginning until that of the next traced turn, so that a
    reader compares ``turn``. Nothing that a session decides depends on it.
    """

    turn: TurnId
    traceparent: str
    began_at: datetime


class StepTracing(Protocol):
    """What an AgentSessionFlow takes as its ``tracing``."""

    def watch(
        self, flow_type: str, context: dex.AsyncContext, step: Step, port: StepPort
    ) -> AbstractContextManager[StepPort]:
        """The port to run ``step`` with; leaving the context tells how its method ended."""
        ...


Watch: TypeAlias = Callable[[dex.AsyncContext, Step, StepPort], AbstractContextManager[StepPort]]


def unwatched(
    context: dex.AsyncContext, step: Step, port: StepPort
) -> AbstractContextManager[StepPort]:
    """Run the Step with ``port`` itself."""
    return nullcontext(port)
