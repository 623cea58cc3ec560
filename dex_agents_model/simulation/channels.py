"""Channels of a simulated session, and what a Step may wait for on them. First in, first out; nothing decides here."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias, assert_never

from attrs import frozen

from ..calls import ToolCallCompleted
from ..decision import (
    InterruptResolved,
    Publish,
    SteeringQueued,
    ToolCallFinished,
    UserMessageQueued,
)
from ..effects import InterruptAnswered, Occurrence, ToolResultsArrived, UserSpoke, UserSteered
from ..records import AgentInterruptResolution, AgentUserMessage, SteeringMessage
from ..waits import ForInterruptResolution, ForToolResults, ForUserMessage, NoWait, Wait
from ..wire import dump, load

Channels: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Messages as text by Channel, sorted by name; no Channel in it is empty."""

STEERING_MESSAGES: Final = "SteeringMessages"
QUEUED_USER_MESSAGES: Final = "QueuedUserMessages"
INTERRUPT_RESOLUTIONS: Final = "InterruptResolutions/"
TOOL_CALL_RESULTS: Final = "ToolCallResults"


@frozen
class Condition:
    """The first of ``any_of`` (Channel, count) that can be had; or the Timer, if there is one."""

    any_of: tuple[tuple[str, int], ...]
    at_most: timedelta | None = None


def condition_of(wait: Wait) -> Condition | None:
    """``wait`` as Channels and a Timer; None when the Step executes at once."""
    match wait:
        case NoWait():
            return None
        case ForUserMessage():
            return Condition(((STEERING_MESSAGES, 1), (QUEUED_USER_MESSAGES, 1)))
        case ForInterruptResolution(interrupt_id, at_most):
            return Condition(((INTERRUPT_RESOLUTIONS + interrupt_id, 1),), at_most)
        case ForToolResults(count):
            return Condition(((TOOL_CALL_RESULTS, count),))
        case _:
            assert_never(wait)


def message_of(publish: Publish) -> tuple[str, str]:
    """The Channel that ``publish`` goes to, and its text there."""
    match publish:
        case ToolCallFinished():
            return TOOL_CALL_RESULTS, _text(publish.message)
        case UserMessageQueued(message):
            return QUEUED_USER_MESSAGES, _text(message)
        case SteeringQueued(steering):
            return STEERING_MESSAGES, _text(steering)
        case InterruptResolved(resolution):
            return INTERRUPT_RESOLUTIONS + resolution.interrupt_id, _text(resolution)
        case _:
            assert_never(publish)


@lru_cache(maxsize=16_384)
def occurrence_of(channel: str, messages: tuple[str, ...]) -> Occurrence:
    """What it means to a Step that it took ``messages`` from ``channel``."""
    if channel == TOOL_CALL_RESULTS:
        return ToolResultsArrived()
    if channel == QUEUED_USER_MESSAGES:
        return UserSpoke(_message(messages[0], AgentUserMessage))
    if channel == STEERING_MESSAGES:
        return UserSteered(_message(messages[0], SteeringMessage))
    return InterruptAnswered(_message(messages[0], AgentInterruptResolution))


def messages_in(channels: Channels, channel: str) -> tuple[str, ...]:
    return next((messages for name, messages in channels if name == channel), ())


def user_messages_in(channels: Channels) -> tuple[AgentUserMessage, ...]:
    """What users said and no turn has taken, oldest first."""
    return tuple(
        _message(text, AgentUserMessage) for text in messages_in(channels, QUEUED_USER_MESSAGES)
    )


def user_message_of(text: str) -> AgentUserMessage:
    """The message of the user queue that has this text there."""
    message: AgentUserMessage = _message(text, AgentUserMessage)
    return message


def steering_in(channels: Channels) -> tuple[SteeringMessage, ...]:
    """What users said to a turn and no turn has taken, oldest first."""
    return tuple(
        _message(text, SteeringMessage) for text in messages_in(channels, STEERING_MESSAGES)
    )


def answers_to(channels: Channels, interrupt_id: str) -> tuple[AgentInterruptResolution, ...]:
    """The answers to one question that no Step has taken."""
    answers = messages_in(channels, INTERRUPT_RESOLUTIONS + interrupt_id)
    return tuple(_message(text, AgentInterruptResolution) for text in answers)


def results_in(channels: Channels) -> tuple[ToolCallCompleted, ...]:
    """The results that no ResumeTurn has counted, oldest first."""
    return tuple(
        _message(text, ToolCallCompleted) for text in messages_in(channels, TOOL_CALL_RESULTS)
    )


def holds(channels: Channels, channel: str, message: str) -> bool:
    return message in messages_in(channels, channel)


def without(channels: Channels, taken: tuple[tuple[str, str], ...]) -> Channels:
    """``channels`` without these messages; one that is gone already is no matter."""
    if not taken:
        return channels
    queues = dict(channels)
    for channel, message in taken:
        left = list(queues.get(channel, ()))
        if message in left:
            left.remove(message)
            queues[channel] = tuple(left)
    return tuple((name, messages) for name, messages in queues.items() if messages)


def with_published(channels: Channels, published: tuple[tuple[str, str], ...]) -> Channels:
    if not published:
        return channels
    queues = dict(channels)
    for channel, message in published:
        queues[channel] = (*queues.get(channel, ()), message)
    return tuple(sorted(queues.items()))


def take(channels: Channels, condition: Condition) -> tuple[str, tuple[str, ...], Channels] | None:
    """The messages that meet ``condition``, their Channel, and what is left; None when nothing meets it."""
    for channel, count in condition.any_of:
        queue = messages_in(channels, channel)
        if len(queue) >= count:
            queues = dict(channels) | {channel: queue[count:]}
            left = tuple((name, messages) for name, messages in queues.items() if messages)
            return channel, queue[:count], left
    return None


def _text(message: Any) -> str:
    return json.dumps(dump(message, type(message)), sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=16_384)
def _message(text: str, shape: Any) -> Any:
    return load(json.loads(text), shape)
