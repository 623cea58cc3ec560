"""What code of an agent raises ends its own Step and no Worker, and its hooks may answer for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from dex_agents_model import ToolCallsRequested, ToolExecutionError, ToolNotStarted, TurnCompleted
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed, ToolStepFailed

from .doubles import Chunk, ScriptedModel, Session, execution, succeeded, tool_call

DEADLINE = 20.0  # seconds, before a Step counts as one that never ends
ENDING = [SystemExit, KeyboardInterrupt, StopAsyncIteration]


@dataclass
class Raises(AbstractCapability[Any]):
    """Raises ``error`` at ``place``."""

    place: str
    error: type[BaseException]

    def at(self, place: str) -> None:
        if self.place == place:
            raise self.error

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self.at("before a run")

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self.at("before a model request")
        return request_context

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        self.at("after a run")
        return result

    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        self.at("before a validation")
        return args

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        self.at("before a tool")
        return args


def runner(place: str, error: type[BaseException]) -> PydanticAIRunner[None, str]:
    raising = Raises(place, error)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raising.at("in the model")
        yield "done"

    agent = Agent(FunctionModel(stream_function=answer), capabilities=[raising])

    @agent.instructions
    async def instructions() -> str:
        raising.at("in the instructions")
        return ""

    @agent.tool_plain
    async def tool() -> str:
        raising.at("in the tool")
        return ""

    return PydanticAIRunner(agent)


@pytest.mark.parametrize(
    ("place", "error"),
    [
        *product(["before a run", "before a model request", "in the model", "after a run"], ENDING),
        *product(["in the instructions"], [SystemExit, KeyboardInterrupt]),
    ],
)
async def test_model_step__ends_alone_whatever_the_agent_raises(
    place: str, error: type[BaseException]
) -> None:
    with pytest.raises(ModelStepFailed, match=error.__name__):
        await asyncio.wait_for(Session(runner(place, error)).ask("hi"), DEADLINE)


@pytest.mark.parametrize("error", ENDING)
@pytest.mark.parametrize(
    "place", ["before a run", "before a validation", "before a tool", "in the tool", "after a run"]
)
async def test_tool_step__ends_alone_whatever_the_agent_raises(
    place: str, error: type[BaseException]
) -> None:
    step = runner(place, error).execute_deferred_tool_call(execution("tool"))
    with pytest.raises((ToolStepFailed, ToolNotStarted), match=error.__name__):
        await asyncio.wait_for(step, DEADLINE)


@dataclass
class Answers(AbstractCapability[Any]):
    """Ends each run whose model has failed."""

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        return AgentRunResult("sorry")


def answering_runner(*scripts: Iterable[Chunk]) -> PydanticAIRunner[None, str]:
    agent = Agent(ScriptedModel(*scripts), capabilities=[Answers()])

    @agent.tool_plain
    def tool() -> str:
        raise ValueError("no such order")

    return PydanticAIRunner(agent)


async def test_hook_that_answers_for_the_model__ends_the_turn_with_its_answer() -> None:
    played = Session(answering_runner())

    assert isinstance(await played.ask("hi"), TurnCompleted)

    assert [message.text for message in played.messages] == ["hi", "sorry"]


async def test_hook_that_answers_for_the_model__leaves_no_call_without_a_result() -> None:
    played = Session(answering_runner([tool_call("tool", call_id="a")]))
    await played.ask("hi")

    await played.resume(succeeded("a", "found"), steering=("quick",))

    assert [(message.role, message.text) for message in played.messages] == [
        ("user", "hi"),
        ("assistant", None),
        ("tool", "found"),
        ("user", "quick"),
        ("assistant", "sorry"),
    ]


async def test_hook_that_answers_for_the_model__hides_no_error_of_a_tool() -> None:
    with pytest.raises(ToolStepFailed, match="ValueError: no such order"):
        await answering_runner().execute_deferred_tool_call(execution("tool"))


@dataclass
class Refuses(AbstractCapability[Any]):
    """Lets no tool be called with the word "all"."""

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        if any("all" in call.args_as_json_str() for call in response.tool_calls):
            raise ModelRetry("name one of them")
        return response


async def test_hook_that_refuses_an_answer__has_the_model_asked_again_and_no_tool_run() -> None:
    model = ScriptedModel(
        [tool_call("tool", '{"which":"all"}', "a")], [tool_call("tool", '{"which":"7"}', "a")]
    )
    agent = Agent(model, capabilities=[Refuses()])

    @agent.tool_plain
    def tool(which: str) -> str:
        return which

    asked = await Session(PydanticAIRunner(agent)).ask("hi")

    assert isinstance(asked, ToolCallsRequested)
    # The refused call stands in the history, so the next one needs an ID of its own.
    assert [(call.tool_call_id, call.arguments) for call in asked.tool_calls] == [
        ("a-2", '{"which":"7"}')
    ]
    assert len(model.received) == 2


@dataclass
class Translates(AbstractCapability[Any]):
    """Gives each error of a run the application's own name."""

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        raise RuntimeError("the application broke") from error


async def test_hook_that_translates_errors__does_not_make_a_refusal_a_broken_tool() -> None:
    agent = Agent(retries=0, capabilities=[Translates()])

    @agent.tool_plain
    def tool() -> str:
        raise ModelRetry("no such order")

    runner = PydanticAIRunner(agent, model=ScriptedModel())
    with pytest.raises(ToolExecutionError, match=r"^no such order$"):
        await runner.execute_deferred_tool_call(execution("tool"))
