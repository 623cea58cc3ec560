"""A simulated session in hand: it is spoken to, struck and looked at, and its promises are watched."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import timedelta

import pytest

from dex_agents_model.calls import ToolCallStatus, ToolEffect
from dex_agents_model.decision import ClearTurn
from dex_agents_model.effects import InterruptAnswered, TurnCompleted
from dex_agents_model.events import (
    CustomEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from dex_agents_model.folding import fold_events
from dex_agents_model.ids import ToolCallId, TurnId
from dex_agents_model.notes import (
    EXPIRED_MESSAGE,
    OUTCOME_UNKNOWN_TOOL_RESULT,
    SUPERSEDED_MESSAGE,
)
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy
from dex_agents_model.records import MessageRole
from dex_agents_model.runner import AgentTurnContext, AgentTurnOutcome
from dex_agents_model.simulation import (
    EPOCH,
    NO_FAULTS,
    Asks,
    Concludes,
    Fault,
    OnItsOwnLoop,
    PromiseBroken,
    Scenario,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
    explore,
)
from dex_agents_model.simulation.port import NeedsEventLoop
from dex_agents_model.steps import AwaitToolApproval, CallSingleAttemptTool, CallTool, RunModel

from .planting import decisions, going, without, writing

REFUND = ToolUse("c1", "refund", '{"order":7}')
RUNNER = ScriptedRunner({"refund order 7": (Asks(REFUND), Concludes("Refunded."))})
OPTIONS = AgentSessionOptions(
    tool_policies={"refund": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE)},
    interrupt_deadline=timedelta(minutes=1),
)


def _asked() -> SimulatedWorld:
    world = SimulatedWorld(RUNNER, options=OPTIONS, first_message="refund order 7")
    world.run()
    return world


def _texts(world: SimulatedWorld, role: MessageRole) -> list[str | None]:
    return [each.text for each in world.snapshot().messages if each.role is role]


def test_world__runs_a_turn_with_an_approval_to_its_answer() -> None:
    world = _asked()
    (question,) = world.snapshot().pending_interrupts

    assert world.resolve(question.interrupt_id, approved=True)
    world.run()

    assert _texts(world, MessageRole.TOOL) == ["ok"]
    assert _texts(world, MessageRole.ASSISTANT) == ['{"order":7}', "Refunded."]
    assert fold_events(world.events).text == "Refunded."
    assert not fold_events(world.events).lost


def test_world__a_refund_that_was_cut_off_is_not_made_again() -> None:
    world = _asked()
    (question,) = world.snapshot().pending_interrupts
    world.resolve(question.interrupt_id, approved=True)

    world.run_until_tool_starts("c1")
    world.strike(Fault.CRASH_BEFORE_COMMIT, CallSingleAttemptTool)
    world.run()

    (result,) = _texts(world, MessageRole.TOOL)
    assert result == OUTCOME_UNKNOWN_TOOL_RESULT
    with pytest.raises(LookupError, match="never starts"):
        world.run_until_tool_starts("c1")


def test_world__time_passes_when_it_is_told_to_and_a_deadline_with_it() -> None:
    world = _asked()
    (question,) = world.snapshot().pending_interrupts
    assert (world.now, question.deadline) == (EPOCH, EPOCH + timedelta(minutes=1))

    world.pass_time(timedelta(minutes=1))
    late = world.resolve(question.interrupt_id, approved=True)
    world.run()

    assert not late
    assert _texts(world, MessageRole.TOOL) == [EXPIRED_MESSAGE]


def test_world__steering_rejects_what_waits_and_enters_the_turn() -> None:
    world = _asked()

    assert world.steer("keep the money")
    world.run()

    assert _texts(world, MessageRole.TOOL) == [SUPERSEDED_MESSAGE]
    assert _texts(world, MessageRole.USER) == ["refund order 7", "keep the money"]


def test_world__a_cancelled_turn_ends_and_the_next_message_begins_another() -> None:
    world = _asked()

    assert world.say("hello")
    assert world.cancel(TurnId("turn-1"))
    world.run()

    assert world.snapshot().pending_interrupts == ()
    assert _texts(world, MessageRole.USER) == ["refund order 7", "hello"]
    assert _texts(world, MessageRole.ASSISTANT) == ["Done."]


def test_world__an_edited_call_runs_as_it_was_edited() -> None:
    world = _asked()
    (question,) = world.snapshot().pending_interrupts

    world.resolve(question.interrupt_id, approved=True, edited_arguments='{"order":8}')
    world.run()

    assert _texts(world, MessageRole.TOOL) == [
        '[An approver changed the arguments to {"order":8}]\nok'
    ]


def test_world__a_fault_that_cannot_strike_now_is_refused() -> None:
    with pytest.raises(LookupError, match="REDELIVERY cannot befall CallTool now"):
        _asked().strike(Fault.REDELIVERY, CallTool)


def test_world__says_which_promise_broke_and_all_that_led_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions(RunModel, TurnCompleted, writing(without(ClearTurn)))(monkeypatch)
    world = _asked()
    (question,) = world.snapshot().pending_interrupts
    world.resolve(question.interrupt_id, approved=False)

    with pytest.raises(PromiseBroken) as broken:
        world.run()

    first, *lines = str(broken.value).splitlines()
    assert first.startswith("an ended turn leaves nothing: the turn is over and leaves")
    assert lines[0] == "   1. StartAgentSession(refund order 7).execute: is handed out"
    assert lines[-1].endswith("RunModel(turn-1).execute: commits by RunModel.TurnCompleted")


def test_world__says_that_a_session_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions(AwaitToolApproval, InterruptAnswered, going(lambda steps: ()))(monkeypatch)
    world = _asked()
    (question,) = world.snapshot().pending_interrupts
    world.resolve(question.interrupt_id, approved=True)

    with pytest.raises(PromiseBroken, match="the session stands still and waits for nobody"):
        world.run()


class _Waiting(ScriptedRunner):
    """A runner that needs an event loop."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        await asyncio.wait_for(turn.heartbeat(), timeout=60)
        await asyncio.get_running_loop().run_in_executor(None, str)
        return await super().run_model_step(turn)


def test_on_its_own_loop__lets_any_runner_be_simulated() -> None:
    runner = _Waiting({"hello": (Asks(ToolUse("c1", "look_up")), Concludes("Found."))})
    options = AgentSessionOptions(tool_policies={"look_up": ToolPolicy(ToolEffect.READ)})
    looped = Scenario(
        name="looped",
        about="a turn",
        runner=OnItsOwnLoop(runner),
        options=options,
        first_message="hello",
    )

    seen = explore(looped, faults=NO_FAULTS)

    assert (seen.findings, seen.is_complete) == ((), True)


class _Suspending(ScriptedRunner):
    """A runner that waits for what no simulation brings about."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        await _Never()
        return await super().run_model_step(turn)


class _Never:
    def __await__(self) -> Generator[None, None, None]:
        yield


def test_world__says_that_a_runner_needs_a_loop() -> None:
    suspending = SimulatedWorld(_Suspending(), first_message="hello")

    with pytest.raises(NeedsEventLoop, match=r"OnItsOwnLoop\(runner\)"):
        suspending.run()


class _Telling(ScriptedRunner):
    """A runner that tells watchers all that it can."""

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        turn.events.write_reasoning_delta("Let me see")
        turn.events.write_tool_call_started(ToolCallId("c1"), "look_up")
        turn.events.write_tool_call_finished(ToolCallId("c1"), "look_up", ToolCallStatus.SUCCEEDED)
        turn.events.write_event("progress", '{"percent":40}')
        return await super().run_model_step(turn)


def test_world__tells_watchers_what_the_runner_tells() -> None:
    telling = SimulatedWorld(_Telling(), first_message="hello")
    telling.run()

    told = [event.payload for event in telling.events if event.step_execution_id == "RunModel-1"]
    assert told[:5] == [
        ReasoningDelta("Let me see"),
        ToolCallStarted(ToolCallId("c1"), "look_up"),
        ToolCallFinished(ToolCallId("c1"), "look_up", ToolCallStatus.SUCCEEDED),
        CustomEvent("progress", '{"percent":40}'),
        TextDelta("Done."),
    ]
