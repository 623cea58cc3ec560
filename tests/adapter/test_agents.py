"""Agents of many kinds: what they add to a run changes neither the deferral nor what is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_ai import Agent, NativeOutput, PromptedOutput, RunContext, TextOutput, ToolOutput
from pydantic_ai.capabilities import (
    AbstractCapability,
    Capability,
    Instrumentation,
    ProcessEventStream,
    ProcessHistory,
)
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_core import CoreSchema

from dex_agents_model import (
    ToolCallsRequested,
    ToolEffect,
    ToolExecutionError,
    TurnCompleted,
)
from dex_agents_pydantic_ai import PydanticAIRunner

from .doubles import ScriptedModel, Session, execution, rejected, succeeded, tool_call, tool_calls


class Answer(BaseModel):
    """A structured final result."""

    text: str


class Other(BaseModel):
    """Another one."""

    number: int


def shout(text: str) -> str:
    """An output function over text."""
    return text.upper()


def send(text: str) -> str:
    """An output function over a tool call."""
    return text


def find(x: int) -> str:
    return f"found {x}"


# --- output types ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output_type",
    [
        str,
        Answer,
        [Answer, Other],
        [Answer, str],
        Answer | Other,
        ToolOutput(Answer, name="reply"),
        [ToolOutput(Answer, name="reply"), ToolOutput(Other, name="count")],
        NativeOutput(Answer),
        NativeOutput[Answer | Other]([Answer, Other]),
        PromptedOutput(Answer),
        TextOutput(shout),
        send,
        [send, Other],
    ],
    ids=lambda spec: re.sub(r" at 0x[0-9a-f]+", "", str(spec)),  # the same in every process
)
async def test_output_type__is_offered_to_the_model_as_in_a_plain_run(output_type: Any) -> None:
    agent = Agent[None, Any](output_type=output_type, tools=[find])
    script = tool_calls(("find", '{"x":1}', "a"))
    plain, stepped = ScriptedModel(script), ScriptedModel(script)

    asked = await Session(PydanticAIRunner(agent, model=stepped)).ask("hi")
    with pytest.raises(RuntimeError):  # the plain run goes on, and the script has ended
        async with agent.run_stream("hi", model=plain) as result:
            await result.get_output()

    assert isinstance(asked, ToolCallsRequested)
    assert output_of(stepped.infos[0]) == output_of(plain.infos[0])


async def test_output_type__is_built_for_the_agent_and_not_anew_in_each_model_step() -> None:
    built = 0

    class Counted(BaseModel):
        """Knows how often its schema was made."""

        x: int

        @classmethod
        def __get_pydantic_json_schema__(
            cls, schema: CoreSchema, handler: GetJsonSchemaHandler
        ) -> dict[str, Any]:
            nonlocal built
            built += 1
            return handler(schema)

    agent = Agent(output_type=Counted, tools=[find])
    built_before = built
    model = ScriptedModel(
        tool_calls(("find", '{"x":1}', "a")), tool_calls(("final_result", '{"x":2}', "b"))
    )
    played = Session(PydanticAIRunner(agent, model=model))
    await played.ask("hi")
    ended = await played.resume(succeeded("a", "found 1"))

    assert (built_before > 0, built) == (True, built_before)
    assert isinstance(ended, TurnCompleted)
    assert ended.output == '{"x": 2}'


def output_of(info: AgentInfo) -> tuple[object, ...]:
    parameters = info.model_request_parameters
    return (
        parameters.output_mode,
        parameters.output_object,
        [(tool.name, tool.parameters_json_schema) for tool in parameters.output_tools],
        parameters.allow_text_output,
    )


@pytest.mark.parametrize("strategy", ["early", "graceful", "exhaustive"])
async def test_end_strategy__never_lets_a_tool_run_or_be_skipped(strategy: Any) -> None:
    agent = Agent(output_type=Answer, end_strategy=strategy, tools=[find])
    model = ScriptedModel(
        tool_calls(
            ("find", '{"x":1}', "a"),
            ("final_result", '{"text":"early"}', "o"),
            ("find", '{"x":2}', "b"),
        ),
        tool_calls(("final_result", '{"text":"done"}', "p")),
    )
    played = Session(PydanticAIRunner(agent, model=model))

    asked = await played.ask("hi")
    assert isinstance(asked, ToolCallsRequested)
    assert [call.tool_call_id for call in asked.tool_calls] == ["a", "b"]
    done = await played.resume(succeeded("a", "1"), succeeded("b", "2"))

    assert isinstance(done, TurnCompleted)


# --- capabilities ----------------------------------------------------------------------------


async def test_history_processor__changes_what_the_model_sees_and_not_what_is_stored() -> None:
    def newest(messages: list[ModelMessage]) -> list[ModelMessage]:
        return messages[-1:]

    agent = Agent(capabilities=[ProcessHistory(newest)])
    model = ScriptedModel(["one"], ["two"])
    played = Session(PydanticAIRunner(agent, model=model))

    await played.ask("first")
    await played.ask("second")

    assert [len(sent) for sent in model.received] == [1, 1]
    assert [message.text for message in played.messages] == ["first", "one", "second", "two"]


async def test_event_stream__of_the_agent_is_still_heard() -> None:
    heard: list[str] = []

    async def listen(ctx: RunContext[Any], stream: Any) -> None:
        heard.extend([event.event_kind async for event in stream])

    agent = Agent(capabilities=[ProcessEventStream(listen)], tools=[find])
    runner = PydanticAIRunner(agent, model=ScriptedModel(tool_calls(("find", '{"x":1}', "a"))))

    await Session(runner).ask("hi")
    assert "part_start" in heard
    result = await runner.execute_deferred_tool_call(execution("find", '{"x":1}'))

    assert result.output == "found 1"


@pytest.mark.parametrize("capability", [Instrumentation()], ids=["instrumentation"])
async def test_capabilities__that_are_outermost_do_not_stand_in_the_way(
    capability: AbstractCapability[Any],
) -> None:
    agent = Agent(capabilities=[capability], tools=[find])
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"])
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)

    await played.ask("hi")
    result = await runner.execute_deferred_tool_call(execution("find", '{"x":1}'))

    assert isinstance(await played.resume(succeeded("a", result.output)), TurnCompleted)


async def test_capability__that_is_loaded_on_demand_is_a_read_and_reveals_its_tools() -> None:
    agent = Agent(
        capabilities=[
            Capability(
                id="orders",
                description="Looks after orders",
                defer_loading=True,
                toolsets=[FunctionToolset([find])],
                instructions="Be exact.",
            )
        ]
    )
    model = ScriptedModel(
        [tool_call("load_capability", '{"id":"orders"}', "l")],
        [tool_call("find", '{"x":1}', "f")],
        ["done"],
        ["again"],
    )
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)

    first = await played.ask("hi")
    assert isinstance(first, ToolCallsRequested)
    assert first.tool_calls[0].policy.effect is ToolEffect.READ
    loaded = await runner.execute_deferred_tool_call(
        execution("load_capability", first.tool_calls[0].arguments)
    )
    second = await played.resume(succeeded("l", loaded.output))
    assert isinstance(second, ToolCallsRequested)
    assert [call.tool_name for call in second.tool_calls] == ["find"]
    found = await runner.execute_deferred_tool_call(execution("find", '{"x":1}'))
    assert isinstance(await played.resume(succeeded("f", found.output)), TurnCompleted)

    await played.ask("more")
    assert "find" in [tool.name for tool in model.infos[-1].function_tools]


@dataclass
class Guarded(AbstractCapability[Any]):
    """Loaded on demand; its hooks guard its tool."""

    guarded: list[str] = field(default_factory=list)
    id: str | None = "guarded"
    description: str | None = "Looks after refunds"
    defer_loading: bool = True

    def get_toolset(self) -> FunctionToolset[Any]:
        toolset = FunctionToolset[Any]()

        @toolset.tool
        def refund(ctx: RunContext[Any], x: int) -> str:
            return f"refunded {x}, approved: {ctx.tool_call_approved}"

        return toolset

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        self.guarded.append(call.tool_name)
        if args["x"] > 100:
            raise ToolFailed("too much")
        return args


@pytest.mark.parametrize("approved", [False, True])
async def test_capability__that_is_loaded_on_demand_guards_its_tools_in_their_steps(
    approved: bool,
) -> None:
    capability = Guarded()
    runner = PydanticAIRunner(Agent(tools=[find], capabilities=[capability]), model=ScriptedModel())

    async def refund(amount: int) -> str:
        call = execution("refund", f'{{"x": {amount}}}', approved=approved)
        return (await runner.execute_deferred_tool_call(call)).output

    assert await refund(1) == f"refunded 1, approved: {approved}"
    with pytest.raises(ToolExecutionError, match="too much"):
        await refund(101)
    assert capability.guarded == ["refund", "refund"]
    await runner.execute_deferred_tool_call(execution("find", '{"x":1}'))
    assert capability.guarded == ["refund", "refund"]


# --- toolsets --------------------------------------------------------------------------------


async def test_toolset_function__is_built_for_each_step() -> None:
    built: list[str] = []

    def build(ctx: RunContext[object]) -> FunctionToolset[object]:
        built.append("built")
        return FunctionToolset([find])

    agent = Agent(toolsets=[build])
    runner = PydanticAIRunner(agent, model=ScriptedModel(tool_calls(("find", '{"x":1}', "a"))))

    await Session(runner).ask("hi")
    result = await runner.execute_deferred_tool_call(execution("find", '{"x":1}'))

    assert result.output == "found 1"
    assert len(built) >= 2


async def test_prefixed_toolset__is_known_by_the_name_that_the_model_calls() -> None:
    agent = Agent(toolsets=[FunctionToolset([find]).prefixed("shop")])
    model = ScriptedModel(tool_calls(("shop_find", '{"x":1}', "a")))
    runner = PydanticAIRunner(agent, model=model)

    asked = await Session(runner).ask("hi")
    assert isinstance(asked, ToolCallsRequested)
    result = await runner.execute_deferred_tool_call(execution("shop_find", '{"x":1}'))

    assert ([call.tool_name for call in asked.tool_calls], result.output) == (
        ["shop_find"],
        "found 1",
    )


# --- a newer definition of the agent ---------------------------------------------------------


def renamed(x: int) -> str:
    return str(x)


def find_by_name(name: str) -> str:
    return name


@pytest.mark.parametrize(
    ("newer", "words"),
    [
        (Agent, "Unknown tool name: 'find'"),
        (lambda: Agent(tools=[renamed]), "Unknown tool name: 'find'"),
        (
            lambda: Agent(
                toolsets=[FunctionToolset([find_by_name]).renamed({"find": "find_by_name"})]
            ),
            "missing",
        ),
    ],
    ids=["removed", "renamed", "other arguments"],
)
async def test_newer_agent__takes_every_answer_to_a_call_that_waits(newer: Any, words: str) -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["understood"], ["understood"])
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))
    await played.ask("hi")
    played.runner = PydanticAIRunner(newer(), model=model)

    with pytest.raises(ToolExecutionError, match=words):
        await played.runner.execute_deferred_tool_call(execution("find", '{"x":1}', approved=True))
    assert isinstance(await played.resume(rejected("a", "no")), TurnCompleted)
