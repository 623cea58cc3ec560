"""Who begins with a snapshot and reads on sees what everybody sees, and nothing that is older."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from dex_agents_model.calls import (
    AgentToolCall,
    AwaitingApproval,
    RequestedToolCall,
    Succeeded,
    ToolCallStatus,
    ToolEffect,
)
from dex_agents_model.events import (
    AgentEvent,
    TextDelta,
    TurnCancelledEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStarted,
)
from dex_agents_model.folding import (
    LiveText,
    LiveToolCall,
    LiveTurn,
    fold_event,
    fold_events,
    live_turn_in,
)
from dex_agents_model.ids import SessionId, ToolCallId
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy
from dex_agents_model.records import (
    AgentInterrupt,
    AgentState,
    AgentUsage,
    RunningTools,
    TurnCancelled,
    TurnEnd,
    TurnFailed,
    TurnSucceeded,
    WaitingForUserMessage,
)
from dex_agents_model.requests import AgentSnapshot
from dex_agents_model.simulation import (
    EPOCH,
    Asks,
    Breaks,
    Concludes,
    Does,
    Raises,
    Returns,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
)

from .telling import (
    ASKED_A,
    ASKED_B,
    NEXT_TURN,
    TURN,
    A,
    B,
    attempt,
    deferred,
    finished,
    raised,
    resolved,
    started,
    waiting,
)


def requested(call: ToolCallId) -> RequestedToolCall:
    return RequestedToolCall(TURN, call, f"tool_{call}", "{}", ToolEffect.READ, True, 0)


def question(call: ToolCallId) -> AgentInterrupt:
    record = AwaitingApproval(requested(call))
    return AgentInterrupt(record.interrupt_id, TURN, call, record.tool_name, "{}", "sha256:0")


def snapshot(
    state: AgentState | None = None,
    *records: AgentToolCall,
    asked: tuple[AgentInterrupt, ...] = (),
) -> AgentSnapshot:
    return AgentSnapshot(
        session_id=SessionId("s"),
        observed_at=EPOCH,
        state=state,
        messages=(),
        has_earlier_messages=False,
        pending_interrupts=asked,
        tool_calls=records,
        usage=AgentUsage(),
        queued_message_count=0,
    )


USING_TOOLS: Final = RunningTools(TURN.number, 3, 1)
NOW: Final = live_turn_in(
    snapshot(
        USING_TOOLS,
        Succeeded(requested(A), "found"),
        AwaitingApproval(requested(B)),
        asked=(question(B),),
    )
)
DONE: Final = LiveToolCall("", A, "tool_a", ToolCallStatus.SUCCEEDED, is_stored=True)
OPEN: Final = LiveToolCall("", B, "tool_b")


def test_live_turn_in__shows_calls_and_questions_of_the_running_turn() -> None:
    assert (
        LiveTurn(
            TURN,
            tool_calls=(DONE, OPEN),
            waiting_interrupts=(ASKED_B,),
            settled_interrupts=(ASKED_A,),
            from_snapshot=True,
        )
        == NOW
    )


@pytest.mark.parametrize("state", [None, WaitingForUserMessage()], ids=["not started", "no turn"])
def test_live_turn_in__is_blank_before_the_first_turn(state: AgentState | None) -> None:
    assert live_turn_in(snapshot(state)) == LiveTurn()


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (TurnSucceeded(2), TurnCompletedEvent(2)),
        (TurnFailed("lost"), TurnFailedEvent("lost")),
        (TurnCancelled(), TurnCancelledEvent()),
    ],
)
def test_live_turn_in__shows_how_the_latest_turn_ended(
    end: TurnEnd, told: TurnCompletedEvent | TurnFailedEvent | TurnCancelledEvent
) -> None:
    live = live_turn_in(snapshot(WaitingForUserMessage(TURN.number, 5, end)))
    begun = attempt("Await-2", TurnStarted(6), turn=NEXT_TURN)

    assert live == LiveTurn(TURN, ended=told)
    assert fold_events(waiting("Await-2", TurnCompletedEvent(9)), live) is live
    assert not fold_events(begun, live).lost


OLD_NEWS: Final = {
    "that a call was asked for": attempt("RunModel-1", deferred(A), deferred(B)),
    "that a call starts which has ended": attempt("CallTool-1", started(A)),
    "that a call ends which has ended": attempt("CallTool-1", finished(A, ToolCallStatus.FAILED)),
    "a question that was answered": waiting("Ask-1", raised(A)),
    "a question that still waits": waiting("Ask-2", raised(B)),
    "an answer that was applied": attempt("Ask-1", resolved(A)),
    "that the turn began": attempt("Await-1", TurnStarted(3)),
}


@pytest.mark.parametrize("told", OLD_NEWS.values(), ids=OLD_NEWS.keys())
def test_fold_events__changes_nothing_that_a_snapshot_holds(told: tuple[AgentEvent, ...]) -> None:
    assert evolve(fold_events(told, NOW), attempts=()) == NOW


def test_fold_events__goes_on_from_a_snapshot() -> None:
    told = (*attempt("Ask-2", resolved(B)), *attempt("CallTool-2", started(B), finished(B)))

    live = fold_events(told, NOW)

    assert live.tool_calls == (DONE, evolve(OPEN, status=ToolCallStatus.SUCCEEDED))
    assert (live.waiting_interrupts, live.lost) == ((), False)


def test_fold_events__knows_a_text_whose_beginning_nobody_kept() -> None:
    _, *rest = attempt("RunModel-2", TextDelta("let "), TextDelta("me "), TextDelta("see"))
    again = attempt("RunModel-2", TextDelta("let me look"), number=2)

    late = fold_events(rest, NOW)

    assert late.texts == (LiveText("RunModel-2", "me see", is_partial=True),)
    assert not late.lost
    assert fold_events(again, late).texts == (LiveText("RunModel-2", "let me look"),)


def test_fold_events__is_lost_when_something_is_missing_behind_a_snapshot() -> None:
    told = attempt("RunModel-2", TextDelta("a"), TextDelta("b"), TextDelta("c"), TextDelta("d"))
    again = attempt("RunModel-2", TextDelta("a"), TextDelta("b"), number=2)

    assert fold_events((told[1], told[3]), NOW).lost
    assert fold_events((told[1], again[1]), NOW).lost


# --- any session ---------------------------------------------------------------------------

RUNNER: Final = ScriptedRunner(
    {
        "go": (
            Asks(ToolUse("a", "look"), ToolUse("b", "pay"), ToolUse("c", "look")),
            Breaks(attempts=1, then=Asks(ToolUse("d", "pay"))),
            Concludes("Done."),
        )
    },
    {"look": Raises(attempts=1, then=Returns("seen"))},
)
OPTIONS: Final = AgentSessionOptions(
    tool_policies={
        "look": ToolPolicy(ToolEffect.READ),
        "pay": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
    }
)


@frozen
class Joined:
    """Someone who read a snapshot, and the events from a position before it."""

    start: LiveTurn
    position: int

    def check(self, events: list[AgentEvent]) -> None:
        """At any time what the snapshot held still holds; at the end all is as everybody sees it."""
        live, everybody = self.start, fold_events(events)
        stored = [call for call in self.start.tool_calls if call.is_stored]
        for event in events[self.position :]:
            live = fold_event(live, event)
            assert not live.lost
            if live.turn_id == self.start.turn_id:
                assert [call for call in live.tool_calls if call in stored] == stored
        assert (live.turn_id, live.ended) == (everybody.turn_id, everybody.ended)
        whole = {said.step_execution_id: said.text for said in everybody.texts}
        for said in live.texts:
            text = whole[said.step_execution_id]
            assert text.endswith(said.text) if said.is_partial else text == said.text
        if live is not self.start:
            assert _ended(live) == _ended(everybody)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_fold_events__from_any_snapshot_of_a_session_sees_what_everybody_sees(
    chance: Random,
) -> None:
    world = SimulatedWorld(RUNNER, options=OPTIONS, first_message="go")
    joined: list[Joined] = []
    for _ in range(12):
        position = chance.randint(max(0, len(world.events) - 6), len(world.events))
        _wander(world, chance, chance.randrange(12))
        if chance.random() < 0.3:
            world.say("go")
        joined.append(Joined(live_turn_in(world.snapshot()), position))
    _settle(world)

    for each in joined:
        each.check(world.events)


def _wander(world: SimulatedWorld, chance: Random, steps: int) -> None:
    """Anything may happen, faults and answers included."""
    for _ in range(steps):
        ahead = world.ahead()
        faults = [edge for edge in ahead if not isinstance(edge.action.does, Does)]
        sound = [edge for edge in ahead if isinstance(edge.action.does, Does)]
        if faults and chance.random() < 0.1:
            world.take(chance.choice(faults))
        elif sound:
            world.take(chance.choice(sound))
        else:
            _answer(world, approved=chance.random() < 0.7)


def _settle(world: SimulatedWorld) -> None:
    """Every question is answered, and every turn ends."""
    world.run()
    while _answer(world, approved=True):
        world.run()


def _answer(world: SimulatedWorld, *, approved: bool) -> bool:
    asked = world.snapshot().pending_interrupts
    return bool(asked) and world.resolve(asked[0].interrupt_id, approved=approved)


def _ended(live: LiveTurn) -> dict[str, ToolCallStatus | None]:
    return {call.tool_call_id: call.status for call in live.tool_calls}
