"""Sessions that stand still, or never do: each way of looking at a simulation says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from dex_agents_model.calls import ToolEffect
from dex_agents_model.decision import ClearTurn, EndBranch, GoTo, StepDecision, WaitDecision
from dex_agents_model.effects import Entered, InterruptAnswered, TurnCompleted
from dex_agents_model.events import AgentEvent
from dex_agents_model.policy import AgentSessionOptions, ToolPolicy
from dex_agents_model.records import MessageRole
from dex_agents_model.requests import GetAgentSnapshot, ResolveInterrupt
from dex_agents_model.simulation import (
    Asks,
    Odds,
    PromiseBroken,
    ScriptedRunner,
    SimulatedWorld,
    ToolUse,
    explore,
    replay,
    simulate,
    simulated_world,
    world,
)
from dex_agents_model.simulation.actions import Edge
from dex_agents_model.simulation.invariants import no_runner_breaks_its_contract
from dex_agents_model.simulation.narrator import Narrator
from dex_agents_model.simulation.progress import why_it_must_not_rest
from dex_agents_model.simulation.scenarios import SCENARIOS
from dex_agents_model.simulation.world import World
from dex_agents_model.steps import AwaitToolApproval, RunModel
from dex_agents_model.waits import NoWait

from .faults import FAULTS
from .planting import Plant, both, decisions, replies, row, rpc, spec, without, writing

ASKING = ScriptedRunner({"refund order 7": (Asks(ToolUse("c1", "refund")),)})
SPINS: Plant = both(
    spec(AwaitToolApproval, wait=lambda *given: WaitDecision(wait=NoWait())),
    row(AwaitToolApproval, Entered, lambda rule, step, *given: StepDecision(next=GoTo((step,)))),
)
"""A question that is asked again and again, whatever is answered."""


def _asked() -> SimulatedWorld:
    asked = SimulatedWorld(ASKING, first_message="refund order 7")
    asked.run()
    return asked


def test_explore__finds_a_session_that_never_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    SPINS(monkeypatch)

    findings = explore(SCENARIOS["answer-and-queue"]).findings

    assert [each.invariant for each in findings] == ["every session comes to rest"]


def test_explore__finds_a_wait_for_an_answer_that_nobody_can_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies(ResolveInterrupt, lambda decision: evolve(decision, publishes=()))(monkeypatch)

    findings = explore(SCENARIOS["answer-and-queue"], invariants=()).findings

    assert [each.complaint for each in findings] == [
        "AwaitToolApproval(turn-1, c) waits for an answer that nobody can give any more"
    ]


def test_explore__finds_that_a_runner_is_asked_what_its_contract_rules_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (early,) = (each for each in FAULTS if each.name == "the turn resumes one result early")
    early.plant(monkeypatch)

    seen = explore(SCENARIOS[early.scenario], invariants=(no_runner_breaks_its_contract,))

    assert "the model is called while a tool call is open" in seen.findings[0].complaint


def test_rest__is_refused_to_an_answer_that_nobody_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = StepDecision(next=EndBranch())
    row(AwaitToolApproval, InterruptAnswered, lambda *given: ends)(monkeypatch)
    scenario = SCENARIOS["answer-and-queue"]

    (finding,) = explore(scenario, invariants=()).findings
    _, rest = replay(scenario, finding.choices)

    assert list(why_it_must_not_rest(rest)) == [
        "the session stands still and waits for nobody; live: ResumeTurn(turn-1, 1)",
        "accepted answers were never applied: (('turn-1.c', True),)",
    ]


def test_world__goes_on_behind_a_promise_that_it_does_not_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (stays,) = (each for each in FAULTS if each.name == "steering stays in its Channel")
    stays.plant(monkeypatch)
    look = Asks(ToolUse("c1", "look_up")), Asks(ToolUse("c2", "look_up"))
    read = AgentSessionOptions(tool_policies={"look_up": ToolPolicy(ToolEffect.READ)})
    careless = SimulatedWorld(
        ScriptedRunner({"hello": look}), options=read, first_message="hello", invariants=()
    )

    careless.steer("be quick")
    careless.run()

    said = [m.text for m in careless.snapshot().messages if m.role is MessageRole.USER]
    assert said == ["hello", "be quick", "be quick", "be quick"]


def test_world__says_that_it_never_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    SPINS(monkeypatch)
    monkeypatch.setattr(simulated_world, "_MANY_STEPS", 100)
    spinning = SimulatedWorld(ASKING, first_message="refund order 7")

    with pytest.raises(PromiseBroken, match="the session never comes to rest"):
        spinning.run()
    with pytest.raises(LookupError, match="the tool of c1 never starts"):
        spinning.run_until_tool_starts("c1")


def test_world__lets_steps_give_back_what_a_request_locks() -> None:
    asked = SimulatedWorld(ASKING, first_message="refund order 7")
    question = "AwaitToolApproval(turn-1, c1).wait_for: is handed out"
    while question not in asked.happened:
        asked.take(asked.ahead()[0])

    assert asked.steer("stop")
    done = asked.happened.index("AwaitToolApproval(turn-1, c1).wait_for: commits")
    assert asked.happened[done + 1].startswith("SteerUserMessage(")


def test_world__says_that_a_lock_is_never_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_RUNNING", world._RUNNING | {world.Phase.WAITING})
    asked = _asked()

    with pytest.raises(PromiseBroken, match=r"what SteerUserMessage\(.*\) locks is never free"):
        asked.steer("stop")


def test_world__says_that_it_gives_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> Any:
        raise LookupError("not here")

    rpc(GetAgentSnapshot, rule=failing)(monkeypatch)
    silent = SimulatedWorld(ASKING, first_message="refund order 7", invariants=())

    with pytest.raises(PromiseBroken, match="the snapshot is None"):
        silent.snapshot()


def test_simulate__finds_what_breaks_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions(RunModel, TurnCompleted, writing(without(ClearTurn)))(monkeypatch)

    life = simulate(1, scenario=SCENARIOS["three-tools"], actions=0)

    assert life.broken is not None
    assert life.broken.startswith("an ended turn leaves nothing: ")


def test_simulate__finds_that_watchers_miss_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    hear = Narrator.hear

    def later(narrator: Narrator, before: World, edge: Edge) -> Iterator[AgentEvent]:
        for event in hear(narrator, before, edge):
            yield evolve(event, index=event.index + 1)

    monkeypatch.setattr(Narrator, "hear", later)

    broken = simulate(1, scenario=SCENARIOS["three-tools"], actions=10).broken

    assert broken is not None
    assert broken.startswith("events never lie: events of turn-1 are missing before AgentEvent(")


def test_simulate__says_that_a_life_does_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    SPINS(monkeypatch)

    life = simulate(
        1,
        scenario=SCENARIOS["three-tools"],
        actions=10,
        odds=Odds(faults=0, jumps=0),
        peace_within=100,
    )

    assert life.broken == (
        "no progress: the session has not come to rest 100 actions after the last fault"
    )
