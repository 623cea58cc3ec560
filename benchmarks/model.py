"""How fast the model decides and the simulator searches: `python -m benchmarks.model`.

Transitions are the calls of `react` that one turn with three tools and one approval takes, first to
last. Edges are those of `explore` in one of the scenarios that ship with the simulator. Both are
counted by the processor time of this one process, so that a busy machine does not change them much.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from time import process_time

from attrs import evolve, frozen

from dex_agents_model import (
    AgentMessage,
    AgentSessionOptions,
    AgentToolCall,
    AgentUsage,
    AgentUserMessage,
    DeferredToolCall,
    FrameworkMessage,
    MessageRole,
    SessionId,
    Succeeded,
    ToolCallId,
    ToolCallsRequested,
    ToolEffect,
    ToolPolicy,
    TurnCompleted,
    TurnId,
    react,
)
from dex_agents_model.calls import AwaitingApproval, RequestedToolCall, Runnable
from dex_agents_model.effects import (
    Entered,
    InterruptAnswered,
    Occurrence,
    ToolResultsArrived,
    ToolReturned,
    UserSpoke,
)
from dex_agents_model.records import (
    AgentInterruptResolution,
    RunningModel,
    RunningTools,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.simulation import explore
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.steps import (
    AwaitToolApproval,
    AwaitUserMessage,
    CallSingleAttemptTool,
    CallTool,
    ResumeTurn,
    RunModel,
    Step,
)
from dex_agents_model.views import (
    ApprovalView,
    CallView,
    ResumeView,
    SessionView,
    StepView,
    TurnView,
)

ROUNDS = 9
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SESSION, OPTIONS = SessionId("session"), AgentSessionOptions()
TURN = TurnId("turn-6")
USAGE = AgentUsage(requests=1, input_tokens=900, output_tokens=30)
EFFECTS = (ToolEffect.READ, ToolEffect.IDEMPOTENT_WRITE, ToolEffect.NON_IDEMPOTENT_WRITE)
CALLS = tuple(
    RequestedToolCall(
        turn_id=TURN,
        tool_call_id=ToolCallId(f"call-{order}"),
        tool_name=effect,
        arguments='{"order": 7}',
        effect=effect,
        requires_approval=effect is ToolEffect.NON_IDEMPOTENT_WRITE,
        deferral_order=order,
        model_call=1,
    )
    for order, effect in enumerate(EFFECTS)
)
MESSAGES = tuple(
    AgentMessage(number, TurnId.of((number + 1) // 2), role, "{}" * 200, "a text" * 50)
    for number, role in enumerate((MessageRole.USER, MessageRole.ASSISTANT) * 5, start=1)
)
SAID = AgentMessage(11, TURN, MessageRole.USER, "{}", "refund order 7")
ANSWER = FrameworkMessage(MessageRole.ASSISTANT, "{}" * 200, "refunded")
CALLING = RunningModel(turn_count=6, message_count=11, model_calls=0)
USING_TOOLS = RunningTools(turn_count=6, message_count=11, model_calls=1)


@frozen
class Transition:
    step: Step
    view: StepView
    on: Occurrence


def turn() -> Iterator[Transition]:
    """Every transition of the turn, in one of the orders in which they can happen."""
    idle = WaitingForUserMessage(turn_count=5, message_count=10, last_turn=TurnSucceeded(1))
    between = SessionView(session_id=SESSION, options=OPTIONS, state=idle)
    yield Transition(AwaitUserMessage(), between, UserSpoke(AgentUserMessage("refund order 7")))
    begun = model_view(CALLING)
    yield Transition(RunModel(TURN), begun, Entered())
    asked = tuple(
        DeferredToolCall(c.tool_call_id, c.tool_name, c.arguments, ToolPolicy(c.effect))
        for c in CALLS
    )
    yield Transition(RunModel(TURN), begun, ToolCallsRequested("state" * 100, asked, USAGE))
    yield from approval(CALLS[-1])
    for requested in CALLS:
        yield from tool(requested)
    ended = tuple(Succeeded(requested, "a result" * 20) for requested in CALLS)
    resumed = ResumeView(session_id=SESSION, options=OPTIONS, state=USING_TOOLS, tool_calls=ended)
    yield Transition(ResumeTurn(TURN, len(CALLS)), resumed, ToolResultsArrived())
    last = model_view(evolve(CALLING, model_calls=1), "state" * 100, ended)
    yield Transition(RunModel(TURN), last, Entered())
    yield Transition(RunModel(TURN), last, TurnCompleted((ANSWER,), USAGE))


def approval(requested: RequestedToolCall) -> Iterator[Transition]:
    record = AwaitingApproval(requested)
    waiting = ApprovalView(
        session_id=SESSION, options=OPTIONS, state=USING_TOOLS, record=record, interrupts=()
    )
    answer = AgentInterruptResolution(record.interrupt_id, approved=True, resolved_at=NOON)
    step = AwaitToolApproval(TURN, requested.tool_call_id)
    yield Transition(step, waiting, InterruptAnswered(answer))


def tool(requested: RequestedToolCall) -> Iterator[Transition]:
    is_single = requested.effect is ToolEffect.NON_IDEMPOTENT_WRITE
    runs = CallSingleAttemptTool if is_single else CallTool
    step = runs(TURN, requested.tool_call_id)
    view = CallView(
        session_id=SESSION, options=OPTIONS, state=USING_TOOLS, record=Runnable(requested)
    )
    yield Transition(step, view, Entered())
    yield Transition(step, view, ToolReturned("a result" * 20))


def model_view(
    state: RunningModel, run_state: str | None = None, calls: tuple[AgentToolCall, ...] = ()
) -> TurnView:
    return TurnView(
        session_id=SESSION,
        options=OPTIONS,
        state=state,
        usage=USAGE,
        messages=(*MESSAGES, SAID),
        run_state=run_state,
        tool_calls=calls,
    )


def transitions_per_second(turns: int) -> tuple[float, float]:
    """The best and the median of some rounds of so many turns each: others can only slow a round down."""
    transitions = tuple(turn())
    rates: list[float] = []
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(turns):
            for each in transitions:
                react(each.step, each.view, each.on, NOON)
        rates.append(turns * len(transitions) / (process_time() - began))
    return max(rates), statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=2_000, help="so many in each round")
    parser.add_argument("--scenario", choices=SCENARIOS, default="three-tools")
    parser.add_argument("--max-states", type=int, default=20_000, help="stop the search there")
    given = parser.parse_args()

    best, median = transitions_per_second(given.turns)
    print(f"react    {best:>10,.0f} transitions/s (the best round; the median {median:,.0f})")
    began = process_time()
    seen = explore(SCENARIOS[given.scenario], max_states=given.max_states)
    rate = seen.edges / (process_time() - began)
    found = "whole" if seen.is_complete else f"its first {seen.states:,} states"
    print(f"explore  {rate:>10,.0f} edges/s ({given.scenario}, {found}, {seen.edges:,} edges)")


if __name__ == "__main__":
    main()
