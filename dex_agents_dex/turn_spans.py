"""The spans of whole turns, and where the spans of their calls hang. Needs the extra ``otel``.

A turn begins in one process and may end in another, while a span lives in one: hence two spans, one
at each end, and between them the stored `TurnTrace` (docs/decisions/tracing.md).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import dex
from attrs import frozen
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dex_agents_model.events import (
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnEvent,
    TurnFailedEvent,
    TurnStarted,
)
from dex_agents_model.ids import TurnId
from dex_agents_model.records import TurnCancelled, TurnFailed, TurnSucceeded

from .schema import TURN_TRACE
from .span_attributes import Attributes
from .turn_trace import TurnTrace

_TRACEPARENT: Final = "traceparent"
_W3C: Final = TraceContextTextMapPropagator()
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@frozen(kw_only=True)
class TurnSpans:
    """What one invocation of a Step tells of its turn."""

    tracer: trace.Tracer
    record_content: bool
    flow_type: str
    context: dex.AsyncContext

    def tell(self, event: TurnEvent) -> None:
        """Trace what ``event`` says, if it is the turn's beginning or its end."""
        match event.payload:
            case TurnStarted():
                self._begin(event.turn)
            case TurnCompletedEvent():
                self._end(event.turn, TurnSucceeded.outcome)
            case TurnFailedEvent(error):
                self._end(event.turn, TurnFailed.outcome, error)
            case TurnCancelledEvent():
                self._end(event.turn, TurnCancelled.outcome)
            case _:
                pass

    def about(self, turn: TurnId) -> Attributes:
        """What every span of ``turn`` says."""
        return {
            "gen_ai.agent.name": self.flow_type,
            "gen_ai.conversation.id": self.context.flow_id,
            "dex.turn.id": turn,
        }

    def parent(self, turn: TurnId) -> Context:
        """Where the spans of ``turn`` hang: nowhere when the Worker that began it did not trace it."""
        kept = self._kept(turn)
        return Context() if kept is None else _parent(kept)

    def fail(self, span: Span, error_type: str, text: str) -> None:
        """``text`` may quote what was said, hence it is content."""
        span.set_attribute("error.type", error_type)
        span.set_status(StatusCode.ERROR, text if self.record_content else None)

    def _begin(self, turn: TurnId) -> None:
        """Open the turn's trace, and keep where it is in the commit that begins the turn."""
        began_at = datetime.now(UTC)
        span = self.tracer.start_span(
            f"turn {self.flow_type}",
            context=Context(),
            attributes=self.about(turn),
            start_time=_nanoseconds(began_at),
        )
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, trace.set_span_in_context(span))
        span.end(_nanoseconds(began_at))
        if _TRACEPARENT in carrier:  # there is none without a provider
            kept = TurnTrace(turn=turn, traceparent=carrier[_TRACEPARENT], began_at=began_at)
            TURN_TRACE.set(self.context, kept)

    def _end(self, turn: TurnId, outcome: str, error: str | None = None) -> None:
        """Tell of the whole turn, now that its end is durable."""
        kept = self._kept(turn)
        if kept is None:
            return
        span = self.tracer.start_span(
            f"invoke_agent {self.flow_type}",
            context=_parent(kept),
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                **self.about(turn),
                "dex.turn.outcome": outcome,
            },
            start_time=_nanoseconds(kept.began_at),
        )
        if error is not None:
            self.fail(span, TurnFailed.__name__, error)
        ended_at = max(datetime.now(UTC), kept.began_at)  # clocks of two machines may differ
        span.end(_nanoseconds(ended_at))

    def _kept(self, turn: TurnId) -> TurnTrace | None:
        kept: TurnTrace | None = TURN_TRACE.get(self.context)
        return kept if kept is not None and kept.turn == turn else None


def _parent(kept: TurnTrace) -> Context:
    return _W3C.extract({_TRACEPARENT: kept.traceparent}, Context())


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND * 1000
