"""One Step against a port: at most one effect, exactly one commit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import Factory, define

import dex_agents_model.interpreter
from dex_agents_model.calls import Runnable, Succeeded
from dex_agents_model.decision import EndBranch, StepDecision, WaitDecision
from dex_agents_model.effects import (
    Effect,
    Entered,
    ExecuteTool,
    Occurrence,
    Outcome,
    ToolReturned,
)
from dex_agents_model.errors import StateCorrupt
from dex_agents_model.ids import ToolCallId
from dex_agents_model.interpreter import plan_wait, run_step
from dex_agents_model.steps import CallTool, ResumeTurn, Step
from dex_agents_model.table import react
from dex_agents_model.views import CallView, ResumeView, StepView
from dex_agents_model.waits import ForToolResults, NoWait

from .samples import NOW, TURN, USING_TOOLS, call, call_view, view

STEP = CallTool(TURN, ToolCallId("a"))
GIVEN = call_view(CallView, Runnable(call("a")))
ENDED = call_view(CallView, Succeeded(call("a"), "found"))


@define
class ScriptedPort:
    """Answers as it was told and writes down what it was asked to do."""

    given: StepView
    outcome: Outcome | Exception = Factory(lambda: ToolReturned("found"))
    log: list[object] = Factory(list)
    asked_about: list[Step] = Factory(list)

    def waiting_view(self, step: Step) -> StepView:
        self.asked_about.append(step)
        return self.given

    async def view(self, step: Step) -> StepView:
        self.asked_about.append(step)
        return self.given

    def occurrence(self, step: Step) -> Occurrence:
        self.asked_about.append(step)
        return Entered()

    def now(self) -> datetime:
        return NOW

    async def perform(self, effect: Effect) -> Outcome:
        self.log.append(effect)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def commit(self, decision: StepDecision) -> None:
        self.log.append(decision)

    def commit_wait(self, decision: WaitDecision) -> None:
        self.log.append(decision)


async def test_run_step__performs_one_effect_and_commits_once() -> None:
    port = ScriptedPort(GIVEN)
    recorded = react(STEP, GIVEN, ToolReturned("found"), NOW)

    assert await run_step(STEP, port) == recorded
    assert port.log == [ExecuteTool(Runnable(call("a"))), recorded]


async def test_run_step__commits_without_an_effect_when_there_is_nothing_to_do() -> None:
    port = ScriptedPort(ENDED)

    assert await run_step(STEP, port) == StepDecision(next=EndBranch())
    assert port.log == [StepDecision(next=EndBranch())]


async def test_run_step__commits_nothing_when_the_effect_fails() -> None:
    port = ScriptedPort(GIVEN, ConnectionError("lost"))

    with pytest.raises(ConnectionError, match="lost"):
        await run_step(STEP, port)
    assert port.log == [ExecuteTool(Runnable(call("a")))]


async def test_run_step__refuses_a_second_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks_again(*_: Any) -> ExecuteTool:
        return ExecuteTool(Runnable(call("a")))

    monkeypatch.setattr(dex_agents_model.interpreter, "react", asks_again)
    port = ScriptedPort(GIVEN)

    with pytest.raises(StateCorrupt, match="asked for a second effect"):
        await run_step(STEP, port)
    assert port.log == [ExecuteTool(Runnable(call("a")))]


async def test_steps__are_decided_on_what_their_port_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def decides(*given: object) -> object:
        asked.append(given)
        return WaitDecision(wait=NoWait()) if len(given) == 3 else StepDecision(next=EndBranch())

    monkeypatch.setattr(dex_agents_model.interpreter, "react", decides)
    monkeypatch.setattr(dex_agents_model.interpreter, "await_conditions", decides)
    port = ScriptedPort(GIVEN)

    plan_wait(STEP, port)
    await run_step(STEP, port)

    assert asked == [(STEP, GIVEN, NOW), (STEP, GIVEN, Entered(), NOW)]
    assert port.asked_about == [STEP] * 3


def test_plan_wait__commits_the_wait_once() -> None:
    port = ScriptedPort(view(ResumeView, state=USING_TOOLS))
    waits = WaitDecision(wait=ForToolResults(2))

    assert plan_wait(ResumeTurn(TURN, 2), port) == waits
    assert port.log == [waits]
