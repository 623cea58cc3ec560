"""Long sessions: a summary stands for earlier turns, and large results are shown in part and kept in full."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic_ai import Agent
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

from dex_agents_model import (
    AgentMessage,
    ModelCallMetadata,
    SummarizesHistory,
    SummaryRequest,
    ToolCallId,
    ToolCallsRequested,
    TurnCompleted,
    TurnId,
    shorten_result,
)
from dex_agents_model.notes import SHORTENED_RESULT_BYTES
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed
from dex_agents_pydantic_ai.history import to_stored
from dex_agents_pydantic_ai.user_message import build_user_message

from .doubles import SESSION, ScriptedModel, Session, heartbeat, loaded, succeeded, tool_calls

LONG = "x" * (4 * SHORTENED_RESULT_BYTES)


def find(x: int) -> str:
    """Find an order."""
    raise AssertionError("a model Step runs no tool")


def results(messages: list[ModelMessage]) -> list[object]:
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


# --- the summary in the model's input --------------------------------------------------------


async def test_summary__stands_before_the_kept_turns_and_is_not_stored() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["one"], ["two"])
    runner = PydanticAIRunner(Agent(system_prompt="SYS", tools=[find]), model=model)
    played = Session(runner, summary="They like tea.")

    await played.ask("first")
    await played.resume(succeeded("a", "1"))
    await played.ask("second")

    for sent in model.received:
        prompts = [
            part.content
            for message in sent
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        assert prompts[:2] == [
            "Summary of the conversation so far:\n\nThey like tea.",
            "first",
        ]
        systems = [
            part for message in sent for part in message.parts if isinstance(part, SystemPromptPart)
        ]
        assert len(systems) == 1
    assert not any("tea" in message.framework_item for message in played.messages)
    assert [message.text for message in played.messages if message.role == "user"] == [
        "first",
        "second",
    ]


# --- shortened results -----------------------------------------------------------------------


async def test_shortened_results__are_shown_in_part_and_kept_in_full() -> None:
    model = ScriptedModel(
        tool_calls(("find", '{"x":1}', "a"), ("find", '{"x":2}', "b")),
        tool_calls(("find", '{"x":3}', "c")),
        ["done"],
        ["later"],
    )
    played = Session(PydanticAIRunner(Agent(tools=[find]), model=model))

    await played.ask("hi")
    played.shortened = frozenset({ToolCallId("a")})
    asked = await played.resume(succeeded("a", LONG), succeeded("b", LONG))
    assert isinstance(asked, ToolCallsRequested)
    played.shortened = frozenset({ToolCallId("a"), ToolCallId("b")})
    done = await played.resume(succeeded("c", LONG))
    played.shortened = frozenset()
    await played.ask("and?")

    short = shorten_result(LONG)
    assert len(short) < len(LONG)
    assert [results(sent) for sent in model.received] == [
        [],
        [short, LONG],
        [short, short, LONG],
        [LONG, LONG, LONG],
    ]
    assert isinstance(done, TurnCompleted)
    assert results([loaded(message) for message in done.new_messages]) == [LONG, LONG, LONG]


async def test_shortened_results__leave_typed_results_whole() -> None:
    found = '{"discovered_tools": [{"name": "find", "description": null}]}'
    agent = Agent(toolsets=[FunctionToolset([find]).defer_loading()])
    model = ScriptedModel(tool_calls(("search_tools", '{"queries":["find"]}', "s")), ["done"])
    played = Session(PydanticAIRunner(agent, model=model))

    await played.ask("hi")
    played.shortened = frozenset({ToolCallId("s")})
    await played.resume(succeeded("s", found))

    assert "find" in [tool.name for tool in model.infos[1].function_tools]


# --- making a summary ------------------------------------------------------------------------


def request(
    *messages: ModelMessage, before: str | None = None, token_limit: int = 300
) -> SummaryRequest:
    built = [build_user_message("Where is order 7?"), *map(to_stored, messages)]
    return SummaryRequest(
        flow_id=SESSION,
        turn_id=TurnId.of(9),
        attempt=1,
        messages=tuple(
            AgentMessage(n, TurnId.of(1), message.role, message.framework_item, message.text)
            for n, message in enumerate(built, start=1)
        ),
        previous_summary=before,
        token_limit=token_limit,
        heartbeat=heartbeat,
    )


async def test_summarize_history__gives_the_turns_as_plain_text_without_tools() -> None:
    model = ScriptedModel(["They asked ", "for order 7."])
    runner = PydanticAIRunner(
        Agent(instructions="INS", system_prompt="SYS", tools=[find]), model=model
    )

    made = await runner.summarize_history(
        request(
            ModelResponse(
                [
                    ThinkingPart("hm"),
                    TextPart("Let me look."),
                    ToolCallPart("find", {"x": 7}, "a"),
                    ToolCallPart("refund", {"x": 7}, "b"),
                ]
            ),
            ModelRequest(
                [
                    ToolReturnPart("find", "delivered", "a"),
                    ToolReturnPart("refund", "broken", "b", outcome="failed"),
                    UserPromptPart(["Receipt:", BinaryContent(b"png", media_type="image/png")]),
                ]
            ),
            ModelRequest([UserPromptPart(["This one:", ImageUrl("https://example.com/7.png")])]),
            ModelResponse([TextPart("Delivered.")]),
            before="They like \ud800tea.",
        )
    )

    assert made.text == "They asked for order 7."
    assert (made.usage.requests, made.usage.output_tokens > 0) == (1, True)
    assert made.metadata == ModelCallMetadata(request_model="scripted", response_model="scripted")
    [[sent]] = model.received
    [prompt] = sent.parts
    assert isinstance(prompt, UserPromptPart)
    assert prompt.content == (
        "<earlier_summary>\nThey like \ufffdtea.\n</earlier_summary>\n"
        "<transcript>\n"
        "User: Where is order 7?\n"
        "Assistant: Let me look.\n"
        'Assistant called find: {"x":7}\n'
        'Assistant called refund: {"x":7}\n'
        "find (success): delivered\n"
        "refund (failed): broken\n"
        "Tools added: Receipt: [image/png, 3 bytes]\n"
        "User: This one: [image-url https://example.com/7.png]\n"
        "Assistant: Delivered.\n"
        "</transcript>"
    )
    [info] = model.infos
    assert (info.function_tools, info.output_tools) == ([], [])
    assert info.instructions is not None
    assert "at most 200 words" in info.instructions
    assert "INS" not in info.instructions


async def test_summarize_history__shows_long_results_in_part() -> None:
    model = ScriptedModel(["short"])

    await PydanticAIRunner(Agent(), model=model).summarize_history(
        request(ModelRequest([ToolReturnPart("find", "x" * 100_000, "a")]))
    )

    [[sent]] = model.received
    assert 4096 < len(str(sent.parts[0].content)) < 5000  # type: ignore[union-attr]  # a user prompt


async def test_summarize_history__uses_the_summary_model_then_the_model_then_the_agents() -> None:
    summary, turns, own = (ScriptedModel(["from it"]) for _ in range(3))
    agent = Agent(own)

    for runner in (
        PydanticAIRunner(agent, model=turns, summary_model=summary),
        PydanticAIRunner(agent, model=turns),
        PydanticAIRunner(WrapperAgent(agent)),
    ):
        await runner.summarize_history(request())

    assert [len(model.received) for model in (summary, turns, own)] == [1, 1, 1]


async def test_summarize_history__says_that_no_model_is_there() -> None:
    with pytest.raises(ModelStepFailed, match="give the session a summary_model"):
        await PydanticAIRunner(Agent()).summarize_history(request())


async def test_summarize_history__says_what_broke() -> None:
    def broken(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ValueError("out of order")

    runner = PydanticAIRunner(Agent(), model=FunctionModel(stream_function=broken))
    with pytest.raises(ModelStepFailed, match="the summary failed: ValueError: out of order"):
        await runner.summarize_history(request())


# --- the estimate ----------------------------------------------------------------------------


def test_estimate_overhead_tokens__counts_prompts_and_tool_definitions() -> None:
    external = ExternalToolset(
        [ToolDefinition(name="ext", description="y" * 300, parameters_json_schema={})]
    )
    runners = [
        PydanticAIRunner(agent)
        for agent in (
            Agent(),
            Agent(system_prompt="s" * 300),
            Agent(instructions="i" * 300),
            Agent(toolsets=[external]),
            Agent(toolsets=[external.prefixed("p")]),
            Agent(tools=[find]),
            Agent(toolsets=[lambda ctx: external]),
        )
    ]

    counts = [runner.estimate_overhead_tokens() for runner in runners]

    assert counts[:5] == [0, 100, 100, 101, 101]
    assert 20 < counts[5] < 200
    assert counts[6] == 0


def test_runner__summarizes_history() -> None:
    assert isinstance(PydanticAIRunner(Agent()), SummarizesHistory)
