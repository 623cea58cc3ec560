"""OpenTelemetry tracing of agent sessions (extra ``otel``): the option, and the spans of model calls and tool calls.

No session decides anything by them. Nothing else of this package may import this module: a program
that does not trace needs no OpenTelemetry. docs/tracing.md says what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import dex
from attrs import define, field, frozen
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from dex_agents_model.decision import Commit, PutToolCall, StepDecision, WaitDecision
from dex_agents_model.effects import (
    CallModel,
    Effect,
    ExecuteTool,
    Occurrence,
    Outcome,
    Summarize,
    ToolRaised,
)
from dex_agents_model.interpreter import StepPort
from dex_agents_model.runner import ModelCallFailed, RunnerFailed, ToolExecutionError
from dex_agents_model.steps import CallSingleAttemptTool, CallTool, Step
from dex_agents_model.views import StepView

from .span_attributes import (
    REQUEST_MODEL,
    Attributes,
    attributes_of_effect,
    attributes_of_outcome,
    attributes_of_usage,
    content_of_effect,
    content_of_outcome,
)
from .turn_spans import TurnSpans


@frozen(kw_only=True)
class Tracing:
    """Give it to an AgentSessionFlow, and the Steps that its Workers run are traced.

    ``record_content`` adds what was said: messages, arguments, results and the texts of errors.
    ``tracer_provider=None`` means the global one.
    """

    record_content: bool = False
    tracer_provider: trace.TracerProvider | None = None
    _tracer: trace.Tracer = field(init=False, repr=False, eq=False)

    @_tracer.default
    def _tracer_of_the_provider(self) -> trace.Tracer:
        return trace.get_tracer("dex_agents_dex", tracer_provider=self.tracer_provider)

    @contextmanager
    def watch(
        self, flow_type: str, context: dex.AsyncContext, step: Step, port: StepPort
    ) -> Iterator[StepPort]:
        """Trace one invocation of ``step``; see `StepTracing`."""
        spans = TurnSpans(
            tracer=self._tracer,
            record_content=self.record_content,
            flow_type=flow_type,
            context=context,
        )
        traced = _TracedPort(port, step, spans)
        try:
            yield traced
        except BaseException as error:
            traced.end(error)
            raise
        traced.end()


@define
class _TracedPort:
    """Does what ``port`` does, and tells of it. A call's span is open until what came of it is staged."""

    _port: StepPort
    _step: Step
    _spans: TurnSpans
    _call: Span | None = field(default=None, init=False)

    def waiting_view(self, step: Step) -> StepView:
        return self._port.waiting_view(step)

    async def view(self, step: Step) -> StepView:
        return await self._port.view(step)

    def occurrence(self, step: Step) -> Occurrence:
        return self._port.occurrence(step)

    def now(self) -> datetime:
        return self._port.now()

    async def perform(self, effect: Effect) -> Outcome:
        if not isinstance(effect, CallModel | Summarize | ExecuteTool):
            return await self._port.perform(effect)
        span = self._call = self._start(effect)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            outcome = await self._port.perform(effect)
        known = attributes_of_outcome(outcome)
        if REQUEST_MODEL in known:
            span.update_name(f"chat {known[REQUEST_MODEL]}")
        span.set_attributes(known)
        if self._spans.record_content:
            span.set_attributes(content_of_outcome(outcome))
        if isinstance(outcome, ToolRaised):
            self._spans.fail(span, ToolExecutionError.__name__, outcome.message)
        return outcome

    def commit(self, decision: StepDecision) -> None:
        self._port.commit(decision)
        self._tell(decision.commit)

    def commit_wait(self, decision: WaitDecision) -> None:
        self._port.commit_wait(decision)
        self._tell(decision.commit)

    def end(self, error: BaseException | None = None) -> None:
        """The Step's method has returned, or failed with ``error``: so has its call."""
        if self._call is None:
            return
        if error is not None:
            cause = error.__cause__ if isinstance(error, RunnerFailed) else None
            self._spans.fail(self._call, type(cause or error).__qualname__, str(cause or error))
        if isinstance(error, ModelCallFailed):
            self._call.set_attributes(attributes_of_usage(error.usage))
        self._call.end()

    def _start(self, effect: CallModel | Summarize | ExecuteTool) -> Span:
        name, kind = "chat", SpanKind.CLIENT
        if isinstance(effect, ExecuteTool):
            name, kind = f"execute_tool {effect.record.tool_name}", SpanKind.INTERNAL
        context = self._spans.context
        attempt: Attributes = {
            "dex.step.type": type(self._step).__name__,
            "dex.step.execution_id": context.step_execution_id,
            "dex.step.attempt": context.attempt,
        }
        turn = effect.turn
        span = self._spans.tracer.start_span(
            name,
            context=self._spans.parent(turn),
            kind=kind,
            attributes={**self._spans.about(turn), **attempt, **attributes_of_effect(effect)},
        )
        if self._spans.record_content:
            span.set_attributes(content_of_effect(effect))
        return span

    def _tell(self, commit: Commit) -> None:
        if self._call is not None and isinstance(self._step, CallTool | CallSingleAttemptTool):
            for write in commit.writes:
                if isinstance(write, PutToolCall):
                    self._call.set_attribute("dex.tool_call.status", write.record.status.value)
        for event in commit.events:
            self._spans.tell(event)
