"""How a runner is called: from what a Step asked for to what came of it. Both ports do it through here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from .effects import (
    BuildUnfinishedTurn,
    CallModel,
    Effect,
    ExecuteTool,
    HistorySummarized,
    Outcome,
    Summarize,
    ToolRaised,
    ToolReturned,
    UnfinishedTurnBuilt,
)
from .errors import ClaimRefused, ContractBroken
from .events import EventPayload, ModelCallFailedEvent
from .ids import SessionId, ToolCallId, TurnId, idempotency_key
from .policy import AgentSessionOptions
from .runner import (
    AgentEventWriter,
    AgentFrameworkRunner,
    AgentTurnContext,
    AgentTurnOutcome,
    DeferredToolExecution,
    Heartbeat,
    KeepsUnfinishedTurns,
    ModelCallFailed,
    RunnerFailed,
    SummarizesHistory,
    SummaryRequest,
    ToolExecutionError,
    ToolExecutionResult,
    ToolNotStarted,
    ToolOutcomeUnknown,
    UnfinishedTurn,
)
from .text import is_storable
from .user_messages import build_user_message, built_again


@frozen(kw_only=True)
class Invocation:
    """Where a Step runs: what every call of the runner is given, besides what it is about.

    ``tell`` writes an event of the session's own beside those that the runner writes. ``claim``
    asks for the right to run a single-attempt call, in the name of this one delivery.
    """

    session: SessionId
    attempt: int
    options: AgentSessionOptions
    events: AgentEventWriter
    tell: Callable[[EventPayload], None]
    heartbeat: Heartbeat
    claim: Callable[[TurnId, ToolCallId], Awaitable[bool]]


async def perform(effect: Effect, runner: AgentFrameworkRunner, where: Invocation) -> Outcome:
    """Let ``runner`` do what a Step asked for, and say what came of it.

    Raises:
        ContractBroken: the runner returned something that its contract does not know.
        ClaimRefused: another delivery has the call, or its turn is over; the runner was not called.
        RunnerFailed: the runner, or the claim, raised anything else; its type stands in the message.
    """
    try:
        return await _perform(effect, runner, where)
    except ModelCallFailed as failed:
        where.tell(ModelCallFailedEvent(str(failed), failed.usage))
        raise
    except (RunnerFailed, ClaimRefused, ContractBroken):
        raise
    except (Exception, BaseExceptionGroup, SystemExit, KeyboardInterrupt) as error:
        # What runs here ends its own call, and no Worker.
        raise RunnerFailed(f"{type(error).__name__}: {error}") from error


async def _perform(effect: Effect, runner: AgentFrameworkRunner, where: Invocation) -> Outcome:
    match effect:
        case CallModel():
            return await _call_model(effect, runner, where)
        case ExecuteTool():
            return await _execute_tool(effect, runner, where)
        case Summarize():
            return await _summarize(effect, runner, where)
        case BuildUnfinishedTurn():
            return _build_unfinished_turn(effect, runner, where)


async def _call_model(
    effect: CallModel, runner: AgentFrameworkRunner, where: Invocation
) -> Outcome:
    outcome: object = await runner.run_model_step(
        AgentTurnContext(
            flow_id=where.session,
            turn_id=effect.turn,
            attempt=where.attempt,
            messages=tuple(built_again(effect.messages, runner, effect.turn)),
            framework_run_state=effect.run_state,
            tool_calls={record.tool_call_id: record for record in effect.tool_calls},
            steering_messages=tuple(
                build_user_message(runner, message) for message in effect.steering_messages
            ),
            summary=effect.summary,
            shortened_results=frozenset(effect.shortened_results),
            options=where.options,
            events=where.events,
            heartbeat=where.heartbeat,
        )
    )
    if isinstance(outcome, AgentTurnOutcome):
        return outcome
    raise ContractBroken(f"run_model_step returned {outcome!r:.200}, not an AgentTurnOutcome")


async def _execute_tool(
    effect: ExecuteTool, runner: AgentFrameworkRunner, where: Invocation
) -> Outcome:
    record = effect.record
    if effect.fenced and not await where.claim(record.turn_id, record.tool_call_id):
        raise ClaimRefused(
            f"tool call {record.tool_call_id} of {record.turn_id} is not this delivery's to run:"
            " another one has claimed it, or its turn is over"
        )
    where.events.write_tool_call_started(record.tool_call_id, record.tool_name)
    # Output before the tool runs: an engine that has seen it knows that the call may have started.
    await where.heartbeat()
    execution = DeferredToolExecution(
        flow_id=where.session,
        tool_call=record,
        idempotency_key=idempotency_key(where.session, record.turn_id, record.tool_call_id),
        attempt=where.attempt,
        events=where.events,
        heartbeat=where.heartbeat,
    )
    try:
        result: object = await runner.execute_deferred_tool_call(execution)
    except ToolExecutionError as error:
        return ToolRaised(str(error), isinstance(error, ToolOutcomeUnknown))
    except ToolNotStarted as error:
        if not effect.fenced:
            raise  # another delivery may have started it, or may yet
        return ToolRaised(f"the call never started: {error}")
    if isinstance(result, ToolExecutionResult):
        return ToolReturned(result.output, result.framework_content, result.content_tokens)
    raise ContractBroken(
        f"execute_deferred_tool_call returned {result!r:.200}, not a ToolExecutionResult"
    )


async def _summarize(
    effect: Summarize, runner: AgentFrameworkRunner, where: Invocation
) -> HistorySummarized:
    if not isinstance(runner, SummarizesHistory):
        raise ContractBroken(
            "the session's options ask for compaction, but its runner cannot summarise:"
            " it needs summarize_history and estimate_overhead_tokens"
        )
    summarized: object = await runner.summarize_history(
        SummaryRequest(
            flow_id=where.session,
            turn_id=effect.turn,
            attempt=where.attempt,
            messages=tuple(built_again(effect.messages, runner, effect.turn)),
            previous_summary=effect.previous_summary,
            token_limit=effect.token_limit,
            heartbeat=where.heartbeat,
        )
    )
    if isinstance(summarized, HistorySummarized):
        return summarized
    raise ContractBroken(f"summarize_history returned {summarized!r:.200}, not a HistorySummarized")


def _build_unfinished_turn(
    effect: BuildUnfinishedTurn, runner: AgentFrameworkRunner, where: Invocation
) -> UnfinishedTurnBuilt:
    if not isinstance(runner, KeepsUnfinishedTurns):
        return UnfinishedTurnBuilt(None, effect.error)
    turn = UnfinishedTurn(
        flow_id=where.session,
        turn_id=effect.turn,
        framework_run_state=effect.run_state,
        tool_calls={record.tool_call_id: record for record in effect.tool_calls},
    )
    try:
        built = runner.build_unfinished_turn_messages(turn)
        messages = None if built is None else tuple(built)
        if messages is not None and all(is_storable(m.framework_item) for m in messages):
            return UnfinishedTurnBuilt(messages, effect.error)
    except Exception:  # noqa: BLE001 - the turn must end; without its items a note of it is kept
        pass
    return UnfinishedTurnBuilt(None, effect.error)
