"""What a runner shares among its Steps, and what it does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model
from pydantic_ai.models.test import TestModel

from dex_agents_model import ToolCallsRequested, ToolNotStarted
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .doubles import Session, execution, succeeded


def agent_noting(seen: list[object], **settings: Any) -> Agent[None, str]:
    """An agent that notes the model of each of its runs."""
    agent = Agent(**settings)

    @agent.tool
    def tool(ctx: RunContext[object]) -> str:
        seen.append(ctx.model)
        return "x"

    @agent.instructions
    def instructions(ctx: RunContext[object]) -> str:
        seen.append(ctx.model)
        return ""

    return agent


async def play(runner: PydanticAIRunner[None, str]) -> None:
    played = Session(runner)
    asked = await played.ask("hi")
    assert isinstance(asked, ToolCallsRequested)
    [call] = asked.tool_calls
    result = await runner.execute_deferred_tool_call(execution())
    await played.resume(succeeded(call.tool_call_id, result.output))


class Selects(AbstractCapability[Any]):
    """Gives the agent its model, by a name."""

    def get_model(self) -> str:
        return "test"


NAMED: dict[str, dict[str, Any]] = {
    "by the runner": {},
    "by the agent": {"model": "test", "defer_model_check": True},
    "by a capability": {"capabilities": [Selects()]},
}


@pytest.mark.parametrize("settings", NAMED.values(), ids=NAMED)
async def test_model__that_is_given_by_its_name_is_built_once_for_all_steps(
    settings: dict[str, Any],
) -> None:
    seen: list[object] = []

    model = None if settings else "test"
    await play(PydanticAIRunner(agent_noting(seen, **settings), model=model))

    first, *others = seen
    assert isinstance(first, TestModel)
    assert len(others) == 2
    assert all(other is first for other in others)


async def test_model__of_the_agent_keeps_the_name_by_which_hooks_know_it() -> None:
    names: list[str | None] = []
    agent = Agent("test", defer_model_check=True)

    @agent.instructions
    def instructions(ctx: RunContext[object]) -> str:
        names.append(ctx.model_id)
        return ""

    await Session(PydanticAIRunner(agent)).ask("hi")

    assert names == ["test"]


@dataclass
class Resolves(AbstractCapability[Any]):
    """Knows models by names of its own, run by run."""

    asked: list[str] = field(default_factory=list)

    async def resolve_model_id(self, ctx: Any, *, model_id: str) -> Model:
        self.asked.append(model_id)
        return TestModel()


async def test_model__whose_name_a_capability_resolves_is_asked_for_in_each_step() -> None:
    resolves = Resolves()

    await play(PydanticAIRunner(agent_noting([], capabilities=[resolves]), model="ours"))
    own = agent_noting([], capabilities=[resolves], model="own", defer_model_check=True)
    await play(PydanticAIRunner(own))

    assert resolves.asked == [*["ours"] * 3, *["own"] * 3]


async def test_model__that_nobody_knows_fails_the_attempt_by_its_name() -> None:
    runner = PydanticAIRunner(agent_noting([]), model="nobody:nothing")
    words = "there is no model nobody:nothing: UserError: "

    with pytest.raises(ModelStepFailed, match=words):
        await Session(runner).ask("hi")
    with pytest.raises(ToolNotStarted, match=words):
        await runner.execute_deferred_tool_call(execution())
