"""Whole turns as they happen, told with nothing lost, and what a watcher must then have seen. No claim here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, get_args

from attrs import frozen
from hypothesis import strategies as st

from dex_agents_model.calls import FinalCall, ToolCallStatus
from dex_agents_model.events import (
    AgentEvent,
    EventPayload,
    InterruptRaised,
    InterruptResolved,
    ReasoningDelta,
    StepMethod,
    TerminalEvent,
    TextDelta,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
    UsageRecorded,
)
from dex_agents_model.folding import LiveText, LiveToolCall
from dex_agents_model.ids import InterruptId, ToolCallId, TurnId
from dex_agents_model.records import AgentUsage
from tests.wire.strategies import TEXT

from .telling import TURN, attempt, deferred, finished, started

_USED: Final = UsageRecorded(AgentUsage(1), AgentUsage(2))
"""A model call that is committed tells it, whatever it said."""
_STATUSES: Final = st.sampled_from([final.status for final in get_args(FinalCall)])
_DELTAS: Final[st.SearchStrategy[list[EventPayload]]] = st.lists(
    st.builds(TextDelta, TEXT) | st.builds(ReasoningDelta, TEXT), max_size=4
)
_ENDS: Final[st.SearchStrategy[TerminalEvent]] = st.sampled_from(
    (TurnCompletedEvent(2), TurnFailedEvent("lost"), TurnCancelledEvent())
)


@frozen
class Story:
    """A turn: its events in order, and what is true of it once they were all read."""

    turn: TurnId
    events: tuple[AgentEvent, ...]
    texts: tuple[LiveText, ...]
    tool_calls: tuple[LiveToolCall, ...]
    ended: TerminalEvent


@st.composite
def stories(draw: st.DrawFn, turn: TurnId = TURN) -> Story:
    """Up to three model calls with up to three tools each; any attempt may be lost at any event."""
    events: list[AgentEvent] = _told(draw, f"Await-{turn.number}", [TurnStarted(3)], turn)
    texts: list[LiveText] = []
    calls: list[LiveToolCall] = []
    for number in range(draw(st.integers(1, 3))):
        model = f"RunModel-{turn.number}-{number}"
        ids = [
            ToolCallId(f"{number}{name}") for name in draw(st.sampled_from(["", "a", "ab", "abc"]))
        ]
        said = draw(_DELTAS)
        told = [*said, _USED, *map(deferred, ids)]
        events += _told(draw, model, told, turn, instead=draw(_DELTAS))
        texts += _said(model, said)
        branches = []
        for call in ids:
            status = draw(_STATUSES)
            branches.append(_branch(draw, turn, call, status))
            calls.append(LiveToolCall(model, call, f"tool_{call}", status))
        events += draw(_interleaved(branches))
    ended = draw(_ENDS)
    events += _told(draw, f"Await-{turn.number + 1}", [ended], turn, method=StepMethod.WAIT_FOR)
    return Story(turn, tuple(events), tuple(texts), tuple(calls), ended)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Story, ...]:
    """One to three turns on end."""
    return tuple(draw(stories(TurnId.of(n))) for n in range(1, 1 + draw(st.integers(1, 3))))


def told_by(told: tuple[Story, ...]) -> tuple[AgentEvent, ...]:
    return tuple(chain.from_iterable(story.events for story in told))


def _told(
    draw: st.DrawFn,
    step: str,
    payloads: Sequence[EventPayload],
    turn: TurnId,
    *,
    instead: Sequence[EventPayload] | None = None,
    method: StepMethod = StepMethod.EXECUTE,
) -> list[AgentEvent]:
    """A Step method's attempts. Those that are lost end early, and may have told something else ``instead``."""
    events: list[AgentEvent] = []
    lost = draw(st.integers(0, 2))
    for number in range(1, lost + 1):
        other = payloads if instead is None or draw(st.booleans()) else instead
        cut = other[: draw(st.integers(0, len(other)))]
        events += attempt(step, *cut, number=number, method=method, turn=turn)
    return [*events, *attempt(step, *payloads, number=lost + 1, method=method, turn=turn)]


def _branch(
    draw: st.DrawFn, turn: TurnId, call: ToolCallId, status: ToolCallStatus
) -> list[AgentEvent]:
    """One call from its Step on, with or without a question before it."""
    events: list[AgentEvent] = []
    if draw(st.booleans()):
        step, asked = f"Ask-{turn.number}-{call}", InterruptId.of(turn, call)
        question = InterruptRaised(asked, call, f"tool_{call}", None)
        answer = InterruptResolved(asked, True, None)
        events += _told(draw, step, [question], turn, method=StepMethod.WAIT_FOR)
        events += _told(draw, step, [answer], turn)
    running: list[EventPayload] = [started(call), finished(call, status)]
    return [*events, *_told(draw, f"CallTool-{turn.number}-{call}", running, turn)]


@st.composite
def _interleaved(draw: st.DrawFn, branches: list[list[AgentEvent]]) -> list[AgentEvent]:
    """The events of ``branches`` in any order that keeps the order of each."""
    places = [n for n, branch in enumerate(branches) for _ in branch]
    ahead = [iter(branch) for branch in branches]
    return [next(ahead[place]) for place in draw(st.permutations(places))]


def _said(step: str, deltas: Sequence[EventPayload]) -> list[LiveText]:
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return [LiveText(step, text, reasoning)] if deltas else []
