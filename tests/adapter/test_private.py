"""What Pydantic AI does not promise: each fails when a release changes what the adapter reads of it."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolDenied
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, Capability, Hooks
from pydantic_ai.durable_exec._base import BaseDurabilityCapability
from pydantic_ai.exceptions import (
    ContentFilterError,
    IncompleteToolCall,
    RunCancelled,
    RunTimedOut,
    ToolRetryError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from pydantic_ai.usage import RunUsage

from dex_agents_pydantic_ai import private

from .doubles import Chunk, ScriptedModel, tool_calls


def find(x: int) -> str:
    """A tool."""
    return f"found {x}"


@pytest.mark.parametrize(
    ("output_type", "allowed"),
    [
        (str, False),
        ([str, int], False),
        ([str, DeferredToolRequests], True),
        (str | DeferredToolRequests, True),
    ],
)
def test_allows_deferred_tools__reads_the_agents_output_type(
    output_type: Any, allowed: bool
) -> None:
    agent = Agent(output_type=output_type)

    assert private.allows_deferred_tools(agent) is allowed
    assert private.allows_deferred_tools(WrapperAgent(WrapperAgent(agent))) is allowed


async def test_allow_deferred_tools__is_for_one_run_and_leaves_the_agent_as_it_is() -> None:
    asking = ModelResponse([ToolCallPart("ext", {}, "a")])
    agent = Agent(
        FunctionModel(lambda messages, info: asking),
        toolsets=[ExternalToolset([ToolDefinition(name="ext")])],
        output_type=int,
    )

    async with agent.iter("hi") as run:
        private.allow_deferred_tools(run)
        async for _ in run:
            pass

    assert run.result is not None
    output: object = run.result.output
    assert isinstance(output, DeferredToolRequests)
    assert [call.tool_call_id for call in output.calls] == ["a"]
    with pytest.raises(UserError, match="not among output types"):
        await agent.run("hi")


async def test_go_on__gives_code_of_the_agent_the_prompt_and_counts_on() -> None:
    seen: list[object] = []

    def note(ctx: RunContext[None]) -> str:
        seen.append((ctx.prompt, ctx.run_step))
        return ""

    answer = ModelResponse([TextPart("yes")])
    agent = Agent(FunctionModel(lambda messages, info: answer), instructions=note)

    async with agent.iter("other words") as run:
        private.go_on(run, prompt="hi", model_calls=3)
        async for _ in run:
            pass

    assert seen == [("hi", 4)]


def test_has_output_validators__sees_those_added_later() -> None:
    agent = Agent()
    assert private.has_output_validators(agent) is False

    agent.output_validator(lambda output: output)

    assert private.has_output_validators(agent) is True


def test_innermost__refuses_another_kind_of_agent() -> None:
    class Foreign(Agent[None, str]):
        """An agent like any other."""

    private.innermost(Foreign())
    with pytest.raises(ValueError, match="the agent is a object"):
        private.innermost(object())  # type: ignore[arg-type]  # what a caller without types may do


def test_has_system_prompts__sees_texts_and_functions() -> None:
    by_function, by_dynamic_function = Agent(), Agent()
    by_function.system_prompt(lambda: "SYS")
    by_dynamic_function.system_prompt(dynamic=True)(lambda: "SYS")

    assert [
        private.has_system_prompts(agent)
        for agent in (
            Agent(),
            Agent(instructions="INS"),
            Agent(system_prompt="SYS"),
            WrapperAgent(Agent(system_prompt="SYS")),
            by_function,
            by_dynamic_function,
        )
    ] == [False, False, True, True, True, True]


def test_static_prompts__are_the_plain_texts_of_the_agent() -> None:
    agent = Agent(system_prompt=["SYS", "TEM"], instructions=["INS", lambda ctx: "DYNAMIC"])
    agent.instructions(lambda: "LATER")

    assert private.static_prompts(agent) == ["SYS", "TEM", "INS"]
    assert private.static_prompts(WrapperAgent(agent)) == ["SYS", "TEM", "INS"]


async def answer(
    ctx: RunContext[Any], *, requests: DeferredToolRequests
) -> DeferredToolResults | None:
    return None


def test_answers_deferred_calls__sees_a_registered_function() -> None:
    assert private.answers_deferred_calls(Hooks()) is False
    assert private.answers_deferred_calls(Hooks(deferred_tool_calls=answer)) is True

    decorated = Hooks[Any]()
    decorated.on.deferred_tool_calls(answer)
    assert private.answers_deferred_calls(decorated) is True


def test_is_of_durable_execution__knows_the_package_by_its_name() -> None:
    @dataclass
    class Plain(AbstractCapability[Any]):
        pass

    assert private.is_of_durable_execution(BaseDurabilityCapability) is True
    assert private.is_of_durable_execution(Plain) is False


# --- a run that may ask no more ---------------------------------------------------------------


def last_refusal(cause: Exception | None) -> UnexpectedModelBehavior:
    error = UnexpectedModelBehavior("that was too often")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (last_refusal(ModelRetry("another word")), True),
        (last_refusal(ToolRetryError(ToolReturnPart("t", "another word", "c"))), True),
        (last_refusal(None), False),
        (last_refusal(ValueError("no JSON")), False),
        (UsageLimitExceeded("too much"), True),
        (IncompleteToolCall("cut"), True),
        (ContentFilterError("filtered"), True),
        (RuntimeError("broken"), False),
    ],
)
def test_ends_all_asking__knows_a_spent_budget(error: Exception, ends: bool) -> None:
    assert private.ends_all_asking(error) is ends


class Verdict(BaseModel):
    """An output that the models here never give."""

    text: str


BAD_ANSWERS: dict[str, tuple[list[Chunk], Any]] = {
    "arguments that do not fit": (tool_calls(("find", '{"x":"no"}', "a")), str),
    "no such tool": (tool_calls(("nobody", "{}", "a")), str),
    "nothing": ([""], str),
    "an output that does not fit": (tool_calls(("final_result", "{}", "a")), Verdict),
    "text in place of an output": (["hello"], Verdict),
}


@dataclass
class Streaming(AbstractCapability[Any]):
    """Makes a run stream."""

    async def wrap_run_event_stream(
        self, ctx: RunContext[Any], *, stream: AsyncIterable[AgentStreamEvent]
    ) -> AsyncIterable[AgentStreamEvent]:
        async for event in stream:
            yield event


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_ends_all_asking__knows_every_way_to_ask_too_often(name: str) -> None:
    answer, output_type = BAD_ANSWERS[name]
    agent = Agent[None, Any](ScriptedModel(*[answer] * 2), output_type=output_type)
    agent.tool_plain(find)

    with pytest.raises(UnexpectedModelBehavior) as raised:
        await agent.run("hi", capabilities=[Streaming()])

    assert private.ends_all_asking(raised.value) is True


# --- a call that was no longer waited for ----------------------------------------------------


async def error_of_a_timeout(timeout: float) -> ModelRetry:
    """What a toolset raises for a tool that outlives its own timeout."""
    toolset = FunctionToolset[object]()

    @toolset.tool_plain(timeout=timeout)
    async def slow() -> None:
        raise TimeoutError

    ctx = RunContext[object](
        deps=None, model=FunctionModel(lambda messages, info: ModelResponse([])), usage=RunUsage()
    )
    [tool] = (await toolset.get_tools(ctx)).values()
    with pytest.raises(ModelRetry) as raised:
        await toolset.call_tool("slow", {}, ctx, tool)
    return raised.value


@pytest.mark.parametrize("timeout", [5, 0.5, 1e-7])
async def test_hides_unfinished_work__knows_the_timeout_of_a_tool(timeout: float) -> None:
    assert private.hides_unfinished_work(await error_of_a_timeout(timeout)) is True


@dataclass
class RequestError:
    """The shape of an MCP error's data."""

    code: int


class McpLikeError(Exception):
    """The shape of an MCP error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.error = RequestError(code)


def caused_by(cause: BaseException | None) -> ModelRetry:
    error = ModelRetry("the server said so")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "hidden"),
    [
        (McpLikeError(408), True),
        (McpLikeError(-32000), True),
        (McpLikeError(-32001), True),
        (ExceptionGroup("", [ExceptionGroup("", [McpLikeError(408)])]), True),
        (McpLikeError(-32602), False),
        (ValueError("bad"), False),
        (None, False),
    ],
)
def test_hides_unfinished_work__knows_an_mcp_request_without_an_answer(
    cause: BaseException | None, hidden: bool
) -> None:
    assert private.hides_unfinished_work(caused_by(cause)) is hidden


def test_hides_unfinished_work__leaves_a_tools_own_words_alone() -> None:
    own = ModelRetry("Timed out after 5 seconds.")
    assert private.hides_unfinished_work(own) is False

    own.__context__ = TimeoutError()
    own.message = "Timed out after 5 seconds. Ask for less."
    assert private.hides_unfinished_work(own) is False


# --- habits that other files stand on ----------------------------------------------------------


async def test_take_queued__empties_the_queue_of_a_run() -> None:
    taken: list[object] = []
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse([TextPart("done")])),
        capabilities=[Capability(id="orders", description="Orders", defer_loading=True)],
    )

    @dataclass
    class Takes(AbstractCapability[Any]):
        async def before_run(self, ctx: RunContext[Any]) -> None:
            ctx.enqueue("now")
            ctx.enqueue("later", priority="when_idle")
            ctx.load_capability("orders")
            messages, loads = private.take_queued(ctx)
            taken.extend([[message.parts for message in messages], loads])
            taken.append(private.take_queued(ctx))

    run = await agent.run("hi", capabilities=[Takes()])

    words, loads, nothing = taken
    assert isinstance(words, list)
    assert [[part.content for part in parts] for parts in words] == [["now"], ["later"]]
    assert (loads, nothing) == (["orders"], ([], []))
    assert len(run.all_messages()) == 2


def test_take_queued__finds_nothing_outside_a_run() -> None:
    ctx = RunContext[object](
        deps=None, model=FunctionModel(lambda messages, info: ModelResponse([])), usage=RunUsage()
    )

    assert private.take_queued(ctx) == ([], [])


async def test_open_stream__gives_the_model_the_context_of_the_run() -> None:
    given: list[object] = []

    class Noting(FunctionModel):
        @asynccontextmanager
        async def request_stream(self, *request: Any) -> AsyncIterator[StreamedResponse]:
            given.append(request[3].conversation_id)
            async with super().request_stream(*request) as stream:
                yield stream

    class Opening(WrapperModel):
        async def request(self, *request: Any) -> ModelResponse:
            async with private.open_stream(self.wrapped, *request) as stream:
                async for _ in stream:
                    pass
                return stream.get()

    async def say(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "done"

    model = Opening(Noting(stream_function=say))
    run = await Agent(model).run("hi", conversation_id="s-1")

    assert (run.output, given) == ("done", ["s-1"])


def test_run_timed_out__is_a_cancelled_run() -> None:
    """The tool Step tells both apart from an error of the tool by the one type."""
    assert issubclass(RunTimedOut, RunCancelled)


async def test_tool_denied__counts_as_denied_only_among_the_approvals() -> None:
    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart("hi")]),
        ModelResponse([ToolCallPart("ext", {}, "a")]),
    ]
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse([TextPart("done")])),
        toolsets=[ExternalToolset([ToolDefinition(name="ext")])],
        output_type=[str, DeferredToolRequests],
    )

    outcomes = []
    for results in (
        DeferredToolResults(approvals={"a": ToolDenied("no")}),
        DeferredToolResults(calls={"a": ToolDenied("no")}),
    ):
        run = await agent.run(message_history=history, deferred_tool_results=results)
        outcomes += [
            part.outcome
            for message in run.new_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]

    assert outcomes == ["denied", "success"]


def test_models__have_native_tools_that_a_double_can_take_away() -> None:
    """The scripted model of these tests does, so that the local tool search is used."""
    assert "supported_native_tools" in vars(Model)
