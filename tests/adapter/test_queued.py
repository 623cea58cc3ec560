"""What code of the agent queues for the model outlives the run that ends at tool calls, and is told once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.agent import ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, Capability
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.toolsets import FunctionToolset
from pydantic_graph import End

from dex_agents_model import (
    Succeeded,
    ToolCallsRequested,
    ToolExecutionError,
    TurnCompleted,
)
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .doubles import ScriptedModel, Session, execution, loaded, requested, succeeded, tool_calls

PNG = BinaryImage(b"png", media_type="image/png")


def agent_queueing(*queued: Any, result: Any = "ok", **settings: Any) -> Agent[None, str]:
    """An agent whose `tool` queues things in one go."""
    agent = Agent(**settings)

    @agent.tool
    def tool(ctx: RunContext[object]) -> Any:
        ctx.enqueue(*queued)
        return result

    return agent


async def played_out(agent: Agent[None, str]) -> tuple[Session, ScriptedModel]:
    """A turn that calls `tool`, and another turn."""
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"], ["later"])
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)
    await played.ask("hi")
    result = await runner.execute_deferred_tool_call(execution("tool"))
    assert isinstance(
        await played.resume(
            Succeeded(requested("a"), result.output, framework_content=result.framework_content)
        ),
        TurnCompleted,
    )
    await played.ask("and?")
    return played, model


def told(messages: list[ModelMessage]) -> list[object]:
    """What stands in a model's input besides its own answers; system prompts go as tagged words to this one."""
    return [
        re.sub("</?system>", "", part.content) if isinstance(part.content, str) else part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart | SystemPromptPart | ToolReturnPart)
    ]


# --- by a tool -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queued", "content"),
    [
        (("look",), "look"),
        (("look", PNG), ["look", PNG]),
        ((UserPromptPart("look"),), "look"),
        ((UserPromptPart("look"), UserPromptPart([PNG])), ["look", PNG]),
        ((ModelRequest([UserPromptPart("look")]),), "look"),
    ],
    ids=["text", "file", "part", "parts", "request"],
)
async def test_words_that_a_tool_queues__stand_beside_its_result(
    queued: tuple[Any, ...], content: object
) -> None:
    played, model = await played_out(agent_queueing(*queued))

    assert [told(sent) for sent in model.received] == [
        ["hi"],
        ["hi", "ok", content],
        ["hi", "ok", content, "and?"],
    ]
    assert [(message.role.value, message.text) for message in played.messages[:4]] == [
        ("user", "hi"),
        ("assistant", None),
        ("tool", "ok"),
        ("assistant", "done"),
    ]


async def test_words_that_a_tool_queues__follow_those_that_it_returns() -> None:
    agent = agent_queueing("queued", PNG, result=ToolReturn("ok", content="returned"))

    _, model = await played_out(agent)

    assert told(model.received[1]) == ["hi", "ok", ["returned", "queued", PNG]]


@pytest.mark.parametrize(
    "queued",
    [
        (SystemPromptPart("be exact"),),
        ("look", SystemPromptPart("be exact")),
        (
            ModelResponse([TextPart("I looked.")]),
            ModelRequest([UserPromptPart("and?"), SystemPromptPart("be exact")]),
        ),
    ],
    ids=["system prompt", "words before it", "exchange"],
)
async def test_messages_that_a_tool_queues__follow_the_results(queued: tuple[Any, ...]) -> None:
    plain = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"])
    agent = agent_queueing(*queued)
    async with agent.run_stream("hi", model=plain) as result:
        await result.get_output()

    _, model = await played_out(agent)

    assert told(model.received[1]) == told(plain.received[1])
    assert told(model.received[2]) == [*told(plain.received[1]), "and?"]


async def test_messages_that_tools_queue__are_in_the_order_of_their_calls() -> None:
    agent = Agent()

    @agent.tool
    def tool(ctx: RunContext[object], word: str) -> str:
        ctx.enqueue(SystemPromptPart(word))
        ctx.enqueue("idle", priority="when_idle")
        return word

    calls = [("tool", f'{{"word":"{word}"}}', word) for word in ("one", "two")]
    model = ScriptedModel(tool_calls(*calls), ["done"])
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)
    await played.ask("hi")
    records = []
    for _, arguments, call_id in reversed(calls):
        result = await runner.execute_deferred_tool_call(execution("tool", arguments))
        call = requested(call_id)
        records.append(Succeeded(call, result.output, framework_content=result.framework_content))
    await played.resume(*records)

    assert told(model.received[1]) == ["hi", "one", "two", "one", "idle", "two", "idle"]


async def test_what_a_tool_queues__is_kept_in_a_turn_without_an_answer() -> None:
    agent = agent_queueing("look", SystemPromptPart("be exact"))
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["ok"])
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)
    await played.ask("hi")
    result = await runner.execute_deferred_tool_call(execution("tool"))
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)

    kept = runner.build_unfinished_turn_messages(played.unfinished(record))
    assert kept is not None
    played.keep(kept)
    await played.ask("and now?")

    assert told(model.received[1]) == ["hi", "ok", "look", "be exact", "and now?"]


async def test_what_a_failing_tool_queues__is_not_told() -> None:
    agent = Agent()

    @agent.tool
    def tool(ctx: RunContext[object]) -> str:
        ctx.enqueue("look")
        raise ModelRetry("another word, please")

    with pytest.raises(ToolExecutionError, match="another word, please"):
        await PydanticAIRunner(agent, model=ScriptedModel()).execute_deferred_tool_call(
            execution("tool")
        )


# --- by a hook of a model call ---------------------------------------------------------------


@dataclass
class Queues(AbstractCapability[Any]):
    """Queues something when the model has answered for the first time."""

    queued: list[Any]
    times: int = 0

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        self.times += 1
        if self.times == 1:
            ctx.enqueue(*self.queued)
        return response


@pytest.mark.parametrize(
    "queued", ["be quick", SystemPromptPart("be quick")], ids=["words", "part"]
)
async def test_what_a_hook_queues_beside_tool_calls__is_told_beside_their_results(
    queued: Any,
) -> None:
    agent = agent_queueing("look", capabilities=[Queues([queued])])

    played, model = await played_out(agent)

    assert [told(sent) for sent in model.received] == [
        ["hi"],
        ["hi", "ok", "look", "be quick"],
        ["hi", "ok", "look", "be quick", "and?"],
    ]
    assert len(played.messages) == 7


async def test_what_a_hook_queues_beside_refused_arguments__is_told_in_the_same_step() -> None:
    agent = Agent(capabilities=[Queues(["be quick"])])

    @agent.tool_plain
    def tool(x: int) -> str:
        raise AssertionError("a model Step runs no tool")

    bad, good = tool_calls(("tool", '{"x":"bad"}', "a")), tool_calls(("tool", '{"x":1}', "b"))
    model = ScriptedModel(bad, good)

    asked = await Session(PydanticAIRunner(agent, model=model)).ask("hi")

    assert isinstance(asked, ToolCallsRequested)
    assert told(model.received[1])[-1] == "be quick"
    assert asked.framework_run_state.count("be quick") == 1


async def test_what_a_hook_queues__is_kept_in_a_turn_without_an_answer() -> None:
    agent = agent_queueing(capabilities=[Queues([SystemPromptPart("be quick")])])
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["ok"])
    runner = PydanticAIRunner(agent, model=model)
    played = Session(runner)
    await played.ask("hi")
    record = succeeded("a", "1")

    kept = runner.build_unfinished_turn_messages(played.unfinished(record))
    assert kept is not None
    played.keep(kept)
    await played.ask("and now?")

    assert told(model.received[1]) == ["hi", "1", "be quick", "and now?"]


async def test_model_step__fails_when_a_hook_goes_on_without_the_results() -> None:
    @dataclass
    class GoesOn(AbstractCapability[Any]):
        async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
            if isinstance(result, End) and ctx.run_step == 1:
                return ModelRequestNode(ModelRequest([UserPromptPart("never mind")]))
            return result

    agent = agent_queueing(capabilities=[GoesOn()])
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"])

    with pytest.raises(ModelStepFailed, match=r"without the results of the tool calls \['a'\]"):
        await Session(PydanticAIRunner(agent, model=model)).ask("hi")


# --- capabilities that are loaded ------------------------------------------------------------


@dataclass
class Guards(AbstractCapability[Any]):
    """Loaded on demand; its hooks see every tool from then on."""

    guarded: list[str] = field(default_factory=list)
    id: str | None = "guards"
    description: str | None = "Watches over tools"
    defer_loading: bool = True

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any
    ) -> Any:
        self.guarded.append(call.tool_name)
        return args


async def test_capability_on_demand__guards_the_tools_of_others_once_it_is_loaded() -> None:
    guards = Guards()
    agent = agent_queueing(capabilities=[guards])
    call = tool_calls(("tool", "{}", "a"))
    load = tool_calls(("load_capability", '{"id":"guards"}', "l"))
    runner = PydanticAIRunner(
        agent, model=ScriptedModel(call, load, tool_calls(("tool", "{}", "b")))
    )
    played = Session(runner)

    async def run(outcome: object) -> Succeeded:
        assert isinstance(outcome, ToolCallsRequested)
        [asked] = outcome.tool_calls
        record = requested(
            asked.tool_call_id, asked.tool_name, asked.arguments, memo=asked.framework_memo
        )
        result = await runner.execute_deferred_tool_call(execution(of=record))
        return Succeeded(record, result.output, framework_content=result.framework_content)

    before = await run(await played.ask("hi"))
    assert guards.guarded == []
    loading = await run(await played.resume(before))
    await run(await played.resume(loading))

    assert guards.guarded == ["tool"]


async def test_capability_on_demand__that_is_gone_guards_nothing() -> None:
    memo = '{"loaded": ["guards"]}'
    runner = PydanticAIRunner(agent_queueing(), model=ScriptedModel())

    result = await runner.execute_deferred_tool_call(
        execution(of=requested("a", "tool", memo=memo))
    )

    assert result.output == "ok"


def opening_agent() -> Agent[None, str]:
    """An agent whose tool loads a capability on demand."""

    def find() -> str:
        return "found"

    agent = Agent(
        capabilities=[
            Capability(
                id="orders",
                description="Looks after orders",
                defer_loading=True,
                toolsets=[FunctionToolset([find])],
            )
        ]
    )

    @agent.tool
    def tool(ctx: RunContext[object]) -> str:
        return str(ctx.load_capability("orders"))

    return agent


async def test_capability_that_a_tool_loads__is_there_from_the_next_model_call_on() -> None:
    _, model = await played_out(opening_agent())

    offered = [{tool.name for tool in info.function_tools} for info in model.infos]
    assert ["find" in names for names in offered] == [False, True, True]


async def test_capability_that_a_tool_loads__may_be_gone_by_then() -> None:
    model = ScriptedModel(tool_calls(("tool", "{}", "a")), ["done"])
    runner = PydanticAIRunner(opening_agent(), model=model)
    played = Session(runner)
    await played.ask("hi")
    result = await runner.execute_deferred_tool_call(execution("tool"))
    record = Succeeded(requested("a"), result.output, framework_content=result.framework_content)

    played.runner = PydanticAIRunner(agent_queueing(), model=model)
    done = await played.resume(record)

    assert isinstance(done, TurnCompleted)
    assert [loaded(message).kind for message in done.new_messages][-1] == "response"
