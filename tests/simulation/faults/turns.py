"""Faults in turns: how they begin and go on, and what is kept of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from attrs import evolve

from dex_agents_model.calls import Runnable
from dex_agents_model.decision import (
    AppendMessages,
    AppendUserMessage,
    ClearTurn,
    RpcDecision,
    SetState,
    SetTakenRequestIds,
    SetUsage,
    WithdrawQueued,
    Write,
)
from dex_agents_model.effects import (
    Entered,
    ExecuteTool,
    ToolCallsRequested,
    ToolResultsArrived,
    TurnCompleted,
    UserSpoke,
)
from dex_agents_model.records import AgentUserMessage, MessageRole
from dex_agents_model.requests import SendUserMessage, WithdrawUserMessage
from dex_agents_model.simulation import committing
from dex_agents_model.simulation.channels import Channels
from dex_agents_model.steps import (
    AwaitUserMessage,
    CallTool,
    ResumeTurn,
    RunModel,
    Step,
)

from ..planting import Rule, decisions, going, replies, row, rpc, spec, without, writing
from .planted import MESSAGES_ARE_TAKEN_ONCE, PlantedFault, dropping


def _forgetting_the_request(decision: RpcDecision[bool]) -> RpcDecision[bool]:
    return evolve(
        decision, writes=tuple(w for w in decision.writes if not isinstance(w, SetTakenRequestIds))
    )


def _one_sequence_further(write: Write) -> Write:
    if isinstance(write, AppendMessages):
        return AppendMessages(tuple(evolve(m, sequence=m.sequence + 1) for m in write.messages))
    return write


def _without_call_ids(write: Write) -> Write:
    if isinstance(write, AppendMessages):
        return AppendMessages(tuple(evolve(m, tool_call_id=None) for m in write.messages))
    return write


def _counted_twice(write: Write) -> Write:
    return SetUsage(write.usage + write.usage) if isinstance(write, SetUsage) else write


def _in_other_words(write: Write) -> Write:
    if isinstance(write, AppendUserMessage):
        return evolve(write, message=AgentUserMessage("other words"))
    return write


def _over_the_first_one(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    return AppendMessages((*write.messages, evolve(write.messages[-1], sequence=1)))


def _of_another_call(write: Write) -> Write:
    if not isinstance(write, AppendMessages):
        return write
    return AppendMessages(
        tuple(
            evolve(m, tool_call_id="another") if m.role is MessageRole.TOOL else m
            for m in write.messages
        )
    )


def _running_other_arguments(rule: Rule, *given: object) -> object:
    reaction = rule(*given)
    if not isinstance(reaction, ExecuteTool):
        return reaction
    return ExecuteTool(Runnable(evolve(reaction.record.call, arguments='{"order":8}')))


def _one_turn_back(rule: Rule, step: Step, view: Any, on: object, now: datetime) -> object:
    state = evolve(view.state, turn_count=view.state.turn_count - 1)
    return rule(step, evolve(view, state=state), on, now)


def _asked_twice(
    rule: Rule, step: Step, view: object, on: ToolCallsRequested, now: datetime
) -> object:
    return rule(step, view, evolve(on, tool_calls=(*on.tool_calls, *on.tool_calls)), now)


def _raising(*given: object) -> Any:
    raise LookupError("not here")


def _newest_first(channels: Channels, published: tuple[tuple[str, str], ...]) -> Channels:
    queues = dict(channels)
    for channel, message in published:
        queues[channel] = (message, *queues.get(channel, ()))
    return tuple(sorted(queues.items()))


FAULTS: Final = (
    PlantedFault(
        "a second turn begins beside the first",
        decisions(AwaitUserMessage, UserSpoke, going(lambda steps: (*steps, AwaitUserMessage()))),
        "two-messages",
        "one control branch is live",
    ),
    PlantedFault(
        "the session waits for nobody after a turn",
        decisions(RunModel, TurnCompleted, going(lambda steps: ())),
        "two-messages",
        "one control branch is live",
    ),
    PlantedFault(
        "a repeated message is taken twice",
        replies(SendUserMessage, _forgetting_the_request),
        "two-messages",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "send_user_message takes no lock",
        rpc(SendUserMessage, locks=()),
        "two-messages",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "a turn begins with other words",
        decisions(AwaitUserMessage, UserSpoke, writing(_in_other_words)),
        "two-messages",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "a turn's records outlive it",
        decisions(RunModel, TurnCompleted, writing(without(ClearTurn))),
        "two-messages",
        "an ended turn leaves nothing",
    ),
    PlantedFault(
        "sequences have a gap",
        decisions(RunModel, TurnCompleted, writing(_one_sequence_further)),
        "two-messages",
        "messages have no gap",
    ),
    PlantedFault(
        "a turn's messages are not stored",
        decisions(RunModel, TurnCompleted, writing(without(AppendMessages))),
        "two-messages",
        "messages have no gap",
    ),
    PlantedFault(
        "a completed turn loses its results",
        decisions(RunModel, TurnCompleted, writing(_without_call_ids)),
        "two-messages",
        "a completed turn stores its calls",
    ),
    PlantedFault(
        "usage is counted twice",
        decisions(RunModel, ToolCallsRequested, writing(_counted_twice)),
        "model-fails",
        "usage is the sum of committed calls",
    ),
    PlantedFault(
        "the state does not follow the turn",
        decisions(RunModel, ToolCallsRequested, writing(without(SetState))),
        "two-messages",
        "no rule is surprised",
    ),
    PlantedFault(
        "a withdrawn message stays",
        replies(WithdrawUserMessage, dropping(WithdrawQueued)),
        "withdraw",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "a repeated withdrawal is told that it came too late",
        replies(WithdrawUserMessage, dropping(SetTakenRequestIds)),
        "withdraw",
        "a repeated request is answered as before",
    ),
    PlantedFault(
        "the newest message goes to the head of its queue",
        lambda patch: patch.setattr(committing, "with_published", _newest_first),
        "two-messages",
        MESSAGES_ARE_TAKEN_ONCE,
    ),
    PlantedFault(
        "the first message is written anew",
        decisions(RunModel, TurnCompleted, writing(_over_the_first_one)),
        "two-messages",
        "stored messages never change",
    ),
    PlantedFault(
        "a result names another call",
        decisions(RunModel, TurnCompleted, writing(_of_another_call)),
        "two-messages",
        "each stored call has its result",
    ),
    PlantedFault(
        "a tool runs with other arguments than its record's",
        row(CallTool, Entered, _running_other_arguments),
        "two-messages",
        "tools start only when allowed",
    ),
    PlantedFault(
        "a turn takes the number of the one before",
        row(AwaitUserMessage, UserSpoke, _one_turn_back),
        "two-messages",
        "turn numbers are never reused",
    ),
    PlantedFault(
        "the runner names a call twice",
        row(RunModel, ToolCallsRequested, _asked_twice),
        "two-messages",
        "no runner breaks its contract",
    ),
    PlantedFault(
        "a Step fails for ever",
        row(ResumeTurn, ToolResultsArrived, _raising),
        "two-messages",
        "no rule is surprised",
    ),
    PlantedFault(
        "a Step fails for ever before it waits",
        spec(ResumeTurn, wait=_raising),
        "two-messages",
        "no rule is surprised",
    ),
    PlantedFault(
        "a request is never answered",
        rpc(SendUserMessage, rule=_raising),
        "two-messages",
        "no rule is surprised",
    ),
)
