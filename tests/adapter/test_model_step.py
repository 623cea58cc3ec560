"""One model call: what is asked for, what streams, what is refused. No tool may run in any of these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    HandleDeferredToolCalls,
    ProcessEventStream,
)
from pydantic_ai.exceptions import ModelHTTPError, SkipModelRequest
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestContext, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRun
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage

from dex_agents_model import (
    AgentSessionOptions,
    AgentTurnOutcome,
    AgentUsage,
    DeferredToolCall,
    ModelCallMetadata,
    SessionId,
    ToolCallId,
    ToolCallsRequested,
    ToolEffect,
    ToolPolicy,
    TurnCompleted,
    TurnGivenUp,
)
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed
from dex_agents_pydantic_ai.usage import usage_of

from .doubles import (
    SESSION,
    RecordingEvents,
    ScriptedModel,
    Session,
    loaded,
    succeeded,
    tool_call,
    tool_calls,
    with_policies,
)

READ = ToolPolicy(ToolEffect.READ)


class Answer(BaseModel):
    """A structured final result."""

    text: str


@dataclass
class ToolHooks(AbstractCapability[Any]):
    """Notes which hooks of tools are called."""

    called: list[str]

    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        self.called.append("validate")
        return args

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        self.called.append("execute")
        return args


async def listen(ctx: RunContext[Any], stream: AsyncIterable[object]) -> None:
    async for _ in stream:
        pass


def session(agent: Agent[None, Any], model: FunctionModel, **options: Any) -> Session:
    return Session(PydanticAIRunner(agent, model=model), **options)


def agent_with_tools(ran: list[str], **settings: Any) -> Agent[None, Any]:
    agent = Agent(**settings)

    @agent.tool_plain
    def find(x: int) -> str:
        ran.append("find")
        return f"found {x}"

    @agent.tool_plain(requires_approval=True)
    def refund(x: int) -> str:
        ran.append("refund")
        return f"refunded {x}"

    return agent


# --- deferral ----------------------------------------------------------------------------------


async def test_run_model_step__defers_every_call_in_model_order_and_runs_none() -> None:
    ran: list[str] = []
    hooks: list[str] = []
    agent = agent_with_tools(ran, capabilities=[ToolHooks(hooks)])
    model = ScriptedModel(
        tool_calls(("find", '{"x": 1}', "a"), ("refund", '{"x":2}', "b"), ("find", '{"x":3}', "c"))
    )

    outcome = await session(agent, model, options=with_policies(find=READ)).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert outcome.tool_calls == (
        DeferredToolCall("a", "find", '{"x": 1}', READ),
        DeferredToolCall("b", "refund", '{"x":2}', ToolPolicy(ToolEffect.UNCLASSIFIED, True)),
        DeferredToolCall("c", "find", '{"x":3}', READ),
    )
    assert (ran, hooks, len(model.received)) == ([], [], 1)


async def test_run_model_step__keeps_the_run_state_as_messages_and_call_ids() -> None:
    agent = agent_with_tools([])
    model = ScriptedModel(["thinking it over ", *tool_calls(("find", '{"x":1}', "a"))])

    outcome = await session(agent, model).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    state = json.loads(outcome.framework_run_state)
    assert [message["kind"] for message in state["messages"]] == ["request", "response"]
    assert state["calls"] == ["a"]


async def test_run_model_step__completes_a_turn_without_tools() -> None:
    outcome = await session(Agent(), ScriptedModel(["hel", "lo"])).ask("hi")

    assert isinstance(outcome, TurnCompleted)
    assert [message.text for message in outcome.new_messages] == ["hello"]


async def test_run_model_step__runs_the_agent_inside_a_wrapper_by_its_iter() -> None:
    begun = []

    class Noting(WrapperAgent[None, Any]):
        """Notes each run."""

        @asynccontextmanager
        async def iter(self, *args: Any, **options: Any) -> AsyncIterator[AgentRun[None, Any]]:
            begun.append(options["conversation_id"])
            async with super().iter(*args, **options) as run:
                yield run

    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")))
    runner = PydanticAIRunner(Noting(WrapperAgent(agent_with_tools([]))), model=model)

    outcome = await Session(runner).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert begun == [SESSION]


async def test_run_model_step__leaves_the_prompt_to_an_agent_that_rewrites_it() -> None:
    class Polite(WrapperAgent[None, Any]):
        """Says please."""

        @asynccontextmanager
        async def iter(self, *args: Any, **options: Any) -> AsyncIterator[AgentRun[None, Any]]:
            options["user_prompt"] = f"Please: {options['user_prompt']}"
            async with super().iter(*args, **options) as run:
                yield run

    seen: list[object] = []

    def note(ctx: RunContext[None]) -> None:
        seen.append(ctx.prompt)

    agent = Agent(ScriptedModel(["hi"]), instructions=note)

    await Session(PydanticAIRunner(Polite(agent))).ask("say hi")

    assert seen == ["Please: say hi"]


async def test_run_model_step__defers_tools_of_an_agent_whose_output_lists_deferred_requests() -> (
    None
):
    agent = agent_with_tools([], output_type=[Answer, DeferredToolRequests])
    model = ScriptedModel(
        tool_calls(("find", '{"x":1}', "a")), tool_calls(("final_result", '{"text":"done"}', "o"))
    )
    played = session(agent, model)

    assert isinstance(await played.ask("hi"), ToolCallsRequested)
    assert isinstance(await played.resume(succeeded("a", "1")), TurnCompleted)


@pytest.mark.parametrize(
    ("written", "stored"), [("", "{}"), ("{}", "{}"), ('{"x": 1}', '{"x": 1}')]
)
async def test_run_model_step__passes_arguments_on_as_the_model_wrote_them(
    written: str, stored: str
) -> None:
    agent = Agent()

    @agent.tool_plain
    def f(x: int = 0) -> int:
        return x

    outcome = await session(agent, ScriptedModel([tool_call("f", written)])).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert outcome.tool_calls[0].arguments == stored


# --- a final result beside tool calls --------------------------------------------------------


async def test_run_model_step__drops_a_final_result_beside_tool_calls() -> None:
    agent = agent_with_tools([], output_type=Answer)
    model = ScriptedModel(
        tool_calls(("final_result", '{"text":"early"}', "o"), ("find", '{"x":1}', "a"))
    )

    outcome = await session(agent, model).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert [call.tool_call_id for call in outcome.tool_calls] == ["a"]
    assert "early" not in outcome.framework_run_state


async def test_run_model_step__keeps_a_final_result_beside_an_unknown_tool() -> None:
    agent = agent_with_tools([], output_type=Answer)
    model = ScriptedModel(
        tool_calls(("final_result", '{"text":"done"}', "o"), ("nope", "{}", "a")),
        tool_calls(("final_result", '{"text":"again"}', "o2")),
    )

    assert isinstance(await session(agent, model).ask("hi"), TurnCompleted)


async def test_run_model_step__gives_a_final_result_as_data() -> None:
    agent = agent_with_tools([], output_type=Answer)
    model = ScriptedModel(tool_calls(("final_result", '{"text":"done"}', "o")))

    outcome = await session(agent, model).ask("hi")

    assert isinstance(outcome, TurnCompleted)
    assert outcome.output == '{"text": "done"}'


async def test_run_model_step__gives_a_text_that_an_output_function_made_as_data() -> None:
    def receipt(text: str) -> str:
        return f"receipt of {text}"

    agent = agent_with_tools([], output_type=receipt)
    model = ScriptedModel(tool_calls(("final_result", '{"text":"7"}', "o")))

    outcome = await session(agent, model).ask("hi")

    assert isinstance(outcome, TurnCompleted)
    assert outcome.output == '"receipt of 7"'


async def test_run_model_step__gives_no_data_when_the_answer_is_text() -> None:
    outcome = await session(Agent(), ScriptedModel(["an answer"])).ask("hi")

    assert isinstance(outcome, TurnCompleted)
    assert outcome.output is None


async def test_run_model_step__drops_an_early_result_of_a_skipped_model_call() -> None:
    response = ModelResponse(
        parts=[
            ToolCallPart("final_result", {"text": "early"}, "o"),
            ToolCallPart("find", {"x": 1}, "a"),
        ]
    )

    @dataclass
    class Skips(AbstractCapability[Any]):
        async def before_model_request(
            self, ctx: RunContext[Any], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            raise SkipModelRequest(response)

    agent = agent_with_tools([], output_type=Answer, capabilities=[Skips()])

    outcome = await session(agent, ScriptedModel()).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert [call.arguments for call in outcome.tool_calls] == ['{"x":1}']
    assert "early" not in outcome.framework_run_state


async def test_run_model_step__drops_even_an_invalid_result_beside_tool_calls() -> None:
    agent = agent_with_tools([], output_type=Answer)
    model = ScriptedModel(tool_calls(("final_result", "{}", "o"), ("find", '{"x":1}', "a")))

    outcome = await session(agent, model).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert [call.tool_call_id for call in outcome.tool_calls] == ["a"]


# --- what a provider ran itself --------------------------------------------------------------


async def test_run_model_step__keeps_a_providers_own_tools_beside_deferred_calls() -> None:
    searched: list[ModelResponsePart] = [
        NativeToolCallPart("web_search", {"query": "x"}, "n", provider_name="p"),
        NativeToolReturnPart("web_search", "result", "n", provider_name="p"),
    ]
    responses = [
        ModelResponse([*searched, ToolCallPart("find", {"x": 1}, "a")]),
        ModelResponse([TextPart("done")]),
    ]

    @dataclass
    class Answers(AbstractCapability[Any]):
        async def before_model_request(
            self, ctx: RunContext[Any], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            raise SkipModelRequest(responses.pop(0))

    played = session(agent_with_tools([], capabilities=[Answers()]), ScriptedModel())

    asked = await played.ask("hi")
    assert isinstance(asked, ToolCallsRequested)
    assert [call.tool_call_id for call in asked.tool_calls] == ["a"]
    done = await played.resume(succeeded("a", "1"))

    assert isinstance(done, TurnCompleted)
    [first, *_] = done.new_messages
    assert loaded(first).parts == [*searched, ToolCallPart("find", {"x": 1}, "a")]


# --- answers without text ----------------------------------------------------------------------


@pytest.mark.parametrize("answer", [[""], [{0: DeltaThinkingPart(content="hm")}]])
async def test_run_model_step__asks_again_for_an_answer_and_takes_no_older_text(
    answer: list[Any],
) -> None:
    played = session(
        agent_with_tools([]),
        ScriptedModel(["older", *tool_calls(("find", '{"x":1}', "a"))], answer, ["newer"]),
    )
    await played.ask("hi")

    done = await played.resume(succeeded("a", "1"))

    assert isinstance(done, TurnCompleted)
    assert done.new_messages[-1].text == "newer"
    assert done.usage.requests == 2


async def test_run_model_step__asks_again_only_so_often() -> None:
    model = ScriptedModel(*[[""]] * 5)

    given_up = await session(Agent(), model).ask("hi")

    assert isinstance(given_up, TurnGivenUp)
    assert given_up.error == "UnexpectedModelBehavior: Exceeded maximum output retries (1)"
    assert (len(model.received), given_up.usage.requests) == (2, 2)


# --- live text and usage ---------------------------------------------------------------------


async def test_run_model_step__tells_text_and_reasoning_as_they_stream() -> None:
    events = RecordingEvents()
    model = ScriptedModel(
        [
            {0: DeltaThinkingPart(content="th")},
            {0: DeltaThinkingPart(content="ink")},
            "he",
            "llo",
            *tool_calls(("find", '{"x":1}', "a")),
        ]
    )

    await session(agent_with_tools([]), model, events=events).ask("hi")

    assert events.told == [
        ("reasoning_delta", "th"),
        ("reasoning_delta", "ink"),
        ("text_delta", "he"),
        ("text_delta", "llo"),
    ]


@pytest.mark.parametrize(
    "listeners",
    [[], [ProcessEventStream(listen)]],
    ids=["alone", "beside a listener of the agent"],
)
async def test_run_model_step__tells_each_piece_once_and_before_the_next_comes(
    listeners: list[AbstractCapability[Any]],
) -> None:
    events = RecordingEvents()
    told: list[list[tuple[str, str]]] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for piece in ("a", "b", "c"):
            yield piece
            told.append(list(events.told))

    agent = Agent(FunctionModel(stream_function=stream), capabilities=listeners)
    await Session(PydanticAIRunner(agent), events=events).ask("hi")

    pieces = [("text_delta", piece) for piece in ("a", "b", "c")]
    assert told == [pieces[:1], pieces[:2], pieces]
    assert events.told == pieces


async def test_run_model_step__keeps_what_a_model_notes_as_its_stream_closes() -> None:
    """As a FallbackModel does, of which model goes on with a suspended answer."""

    class Noting(WrapperModel):
        @asynccontextmanager
        async def request_stream(self, *request: Any) -> AsyncGenerator[StreamedResponse]:
            async with self.wrapped.request_stream(*request) as stream:
                yield stream
                stream.provider_response_id = "noted"

    outcome = await Session(PydanticAIRunner(Agent(Noting(ScriptedModel(["hi"]))))).ask("hi")

    assert outcome.metadata is not None
    assert outcome.metadata.response_id == "noted"


async def test_run_model_step__keeps_the_deadline_for_the_first_event_of_a_stream() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield "never"

    agent = Agent(
        FunctionModel(stream_function=stream), model_settings={"first_event_timeout": 0.01}
    )

    with pytest.raises(ModelStepFailed, match="without producing any output"):
        await Session(PydanticAIRunner(agent)).ask("hi")


async def test_run_model_step__tells_what_a_failed_call_had_used() -> None:
    model = ScriptedModel([""])  # asked again, and the script has ended

    with pytest.raises(ModelStepFailed) as failed:
        await session(Agent(), model).ask("hi")

    assert len(model.received) == 2
    assert failed.value.usage.requests == 1
    assert failed.value.usage.input_tokens > 0


async def test_run_model_step__reports_the_usage_of_its_own_call_only() -> None:
    played = session(
        agent_with_tools([]),
        ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"]),
    )

    first = await played.ask("hi")
    second = await played.resume(succeeded("a", "1"))

    assert (first.usage.requests, second.usage.requests) == (1, 1)
    assert second.usage.output_tokens > 0


def test_usage_of__maps_each_count() -> None:
    usage = RunUsage(
        requests=1,
        input_tokens=2,
        output_tokens=3,
        cache_read_tokens=4,
        cache_write_tokens=5,
        output_reasoning_tokens=6,
    )
    assert usage_of(usage) == AgentUsage(1, 2, 3, 4, 5, 6)


# --- retries inside the Step -----------------------------------------------------------------


async def test_run_model_step__lets_the_model_correct_bad_arguments_in_the_same_step() -> None:
    ran: list[str] = []
    model = ScriptedModel(
        tool_calls(("find", '{"x": "no number"}', "a")), tool_calls(("find", '{"x": 1}', "b"))
    )

    outcome = await session(agent_with_tools(ran), model).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert [call.tool_call_id for call in outcome.tool_calls] == ["b"]
    assert (outcome.usage.requests, ran) == (2, [])


@pytest.mark.parametrize("arguments", ['{"x": 1', "[1]", "nonsense"])
async def test_run_model_step__never_defers_arguments_that_are_no_object(arguments: str) -> None:
    model = ScriptedModel(
        tool_calls(("find", arguments, "a")), tool_calls(("find", '{"x": 1}', "b"))
    )

    outcome = await session(agent_with_tools([]), model).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert [call.arguments for call in outcome.tool_calls] == ['{"x": 1}']


async def test_run_model_step__defers_good_calls_beside_refused_ones_and_resumes() -> None:
    model = ScriptedModel(
        tool_calls(("find", '{"x":"bad"}', "a"), ("find", '{"x":1}', "b"), ("nope", "{}", "c")),
        ["done"],
    )
    played = session(agent_with_tools([]), model)

    outcome = await played.ask("hi")
    assert isinstance(outcome, ToolCallsRequested)
    assert [call.tool_call_id for call in outcome.tool_calls] == ["b"]

    assert isinstance(await played.resume(succeeded("b", "1")), TurnCompleted)


async def test_run_model_step__gives_up_clearly_when_the_model_never_corrects_itself() -> None:
    model = ScriptedModel(
        *[tool_calls(("find", '{"x":"bad"}', f"a{attempt}")) for attempt in range(5)]
    )

    given_up = await session(agent_with_tools([]), model).ask("hi")

    assert isinstance(given_up, TurnGivenUp)
    assert "Tool 'find' exceeded max retries" in given_up.error
    assert (len(model.received), given_up.usage.requests) == (2, 2)


async def test_run_model_step__gives_each_call_of_a_turn_an_id_of_its_own() -> None:
    call = ("find", '{"x":1}', "a")
    model = ScriptedModel(
        tool_calls(call, call), tool_calls(call), ["one"], tool_calls(call), ["two"]
    )
    played = session(agent_with_tools([]), model)

    def ids(outcome: AgentTurnOutcome) -> list[str]:
        assert isinstance(outcome, ToolCallsRequested)
        return [call.tool_call_id for call in outcome.tool_calls]

    assert ids(await played.ask("first")) == ["a", "a-2"]
    assert ids(await played.resume(succeeded("a", "1"), succeeded("a-2", "2"))) == ["a-3"]
    await played.resume(succeeded("a-3", "3"))
    assert ids(await played.ask("second")) == ["a"]
    assert isinstance(await played.resume(succeeded("a", "4")), TurnCompleted)
    returned = [
        (part.tool_call_id, part.content)
        for message in model.received[-1]
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert returned == [("a", "1"), ("a-2", "2"), ("a-3", "3"), ("a", "4")]


async def test_run_model_step__gives_the_provider_its_own_id_back() -> None:
    theirs = "a/" + "b" * 300
    model = ScriptedModel(tool_calls(("find", '{"x":1}', theirs)), ["done"])
    played = session(agent_with_tools([]), model)
    await played.ask("hi")
    standing = ToolCallId.standing_for(theirs)

    outcome = await played.resume(succeeded(standing, "1"))

    assert isinstance(outcome, TurnCompleted)
    assert [message.tool_call_id for message in outcome.new_messages] == [standing, standing, None]
    (result,) = [p for p in model.received[-1][-1].parts if isinstance(p, ToolReturnPart)]
    assert (result.tool_call_id, result.content) == (theirs, "1")


# --- the rules after a model call ------------------------------------------------------------


async def test_run_model_step__fails_when_a_capability_built_in_the_run_answers_a_call() -> None:
    def answering(ctx: RunContext[Any]) -> HandleDeferredToolCalls[Any]:
        return HandleDeferredToolCalls(
            handler=lambda ctx, requests: requests.build_results(
                calls={call.tool_call_id: "inline" for call in requests.calls}
            )
        )

    agent = agent_with_tools([], capabilities=[answering])
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["final"])

    with pytest.raises(ModelStepFailed, match=r"answered the tool calls \['a'\] itself") as failed:
        await session(agent, model).ask("hi")
    assert failed.value.usage.requests == 2


async def test_run_model_step__fails_when_a_capability_built_in_the_run_wraps_everything() -> None:
    @dataclass
    class Greedy(AbstractCapability[Any]):
        def get_ordering(self) -> CapabilityOrdering:
            return CapabilityOrdering(position="outermost", wraps=(AbstractCapability,))

    agent = agent_with_tools([], capabilities=[lambda ctx: Greedy()])

    with pytest.raises(ModelStepFailed, match="Circular ordering"):
        await session(agent, ScriptedModel(["hi"])).ask("hi")


# --- failures --------------------------------------------------------------------------------


async def test_run_model_step__passes_on_what_the_provider_said() -> None:
    def overloaded(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelHTTPError(status_code=503, model_name="m", body="busy")

    with pytest.raises(ModelStepFailed, match=r"^ModelHTTPError: .*503"):
        await session(Agent(), FunctionModel(stream_function=overloaded)).ask("hi")


async def test_run_model_step__names_what_else_broke() -> None:
    agent = Agent()

    @agent.instructions
    def broken() -> str:
        raise ValueError("no such customer")

    with pytest.raises(ModelStepFailed, match="ValueError: no such customer"):
        await session(agent, ScriptedModel(["hi"])).ask("hi")


async def test_run_model_step__needs_a_model_that_streams() -> None:
    model = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("hi")]))

    with pytest.raises(ModelStepFailed, match="stream"):
        await session(Agent(), model).ask("hi")


async def test_run_model_step__tells_which_model_of_a_fallback_answered() -> None:
    def overloaded(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelHTTPError(status_code=503, model_name="first", body="busy")

    first = FunctionModel(stream_function=overloaded, model_name="first")
    played = Session(PydanticAIRunner(Agent(FallbackModel(first, ScriptedModel(["hello"])))))

    done = await played.ask("hi")

    assert isinstance(done, TurnCompleted)
    assert done.metadata == ModelCallMetadata(
        request_model="fallback:first,scripted", response_model="scripted"
    )


# --- what the run is given -------------------------------------------------------------------


@pytest.mark.parametrize(("flow_id", "conversation"), [("s-1", "s-1"), ("new", "session:new")])
async def test_run_model_step__uses_the_session_as_the_conversation(
    flow_id: str, conversation: str
) -> None:
    agent = Agent()
    agent.instructions(lambda ctx: f"conversation {ctx.conversation_id}")
    model = ScriptedModel(["hi"])

    await session(agent, model, flow_id=SessionId(flow_id)).ask("hi")

    assert model.infos[0].instructions == f"conversation {conversation}"


async def test_run_model_step__does_not_name_the_agent() -> None:
    agent = Agent()

    await session(agent, ScriptedModel(["hi"])).ask("hi")

    assert agent.name is None


@pytest.mark.parametrize("is_async", [False, True])
async def test_run_model_step__builds_the_dependencies_from_the_session(is_async: bool) -> None:
    agent = Agent(deps_type=str)
    agent.instructions(lambda ctx: f"deps: {ctx.deps}")
    model = ScriptedModel(["hi"])

    async def later(session_id: str) -> str:
        return f"for {session_id}"

    factory = later if is_async else (lambda session_id: f"for {session_id}")
    runner = PydanticAIRunner(agent, model=model, deps_factory=factory)
    await Session(runner).ask("hi")

    assert model.infos[0].instructions == "deps: for session-1"


async def test_run_model_step__says_that_the_dependencies_failed() -> None:
    def factory(session_id: str) -> str:
        raise KeyError(session_id)

    runner = PydanticAIRunner(Agent(), model=ScriptedModel(["hi"]), deps_factory=factory)

    with pytest.raises(ModelStepFailed, match="deps_factory raised KeyError: 'session-1'"):
        await Session(runner).ask("hi")


# --- effects ---------------------------------------------------------------------------------


def annotated(hints: dict[str, bool] | None) -> Agent[None, str]:
    toolset = FunctionToolset[None]()
    toolset.add_function(lambda: "x", name="f", metadata={"annotations": hints})
    return Agent(toolsets=[toolset])


@pytest.mark.parametrize(
    ("hints", "options", "policy"),
    [
        (None, AgentSessionOptions(), ToolPolicy(ToolEffect.UNCLASSIFIED)),
        (
            None,
            AgentSessionOptions(default_tool_effect=ToolEffect.IDEMPOTENT_WRITE),
            ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
        ),
        ({"readOnlyHint": True}, AgentSessionOptions(), READ),
        (
            {"idempotentHint": True},
            AgentSessionOptions(),
            ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
        ),
        ({"readOnlyHint": True, "idempotentHint": True}, AgentSessionOptions(), READ),
        ({"readOnlyHint": False}, AgentSessionOptions(), ToolPolicy(ToolEffect.UNCLASSIFIED)),
        (
            {"readOnlyHint": True},
            with_policies(f=ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, False)),
            ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE, False),
        ),
    ],
)
async def test_effects__come_from_the_policy_then_the_hints_then_the_default(
    hints: dict[str, bool] | None, options: AgentSessionOptions, policy: ToolPolicy
) -> None:
    model = ScriptedModel([tool_call("f")])
    outcome = await session(annotated(hints), model, options=options).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert outcome.tool_calls[0].policy == policy


async def test_effects__a_tool_that_requires_approval_waits_whatever_its_policy() -> None:
    options = with_policies(refund=ToolPolicy(ToolEffect.READ, requires_approval=False))
    model = ScriptedModel([tool_call("refund", '{"x":1}')])

    outcome = await session(agent_with_tools([]), model, options=options).ask("hi")

    assert isinstance(outcome, ToolCallsRequested)
    assert outcome.tool_calls[0].policy == ToolPolicy(ToolEffect.READ, requires_approval=True)
