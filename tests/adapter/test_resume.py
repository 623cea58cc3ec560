"""A turn goes on after its tool calls: which result each kind of record becomes, and what the model then sees."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ToolReturnPart,
    ToolSearchReturnPart,
    UserPromptPart,
)

from dex_agents_model import (
    OUTCOME_UNKNOWN_TOOL_RESULT,
    AgentToolCall,
    KeepsUnfinishedTurns,
    ToolCallsRequested,
    ToolEffect,
    TurnCompleted,
    describe_tool_call_outcome,
)
from dex_agents_model.calls import Cancelled, Runnable
from dex_agents_pydantic_ai import PydanticAIRunner
from dex_agents_pydantic_ai.errors import ModelStepFailed

from .doubles import (
    ScriptedModel,
    Session,
    execution,
    failed,
    rejected,
    requested,
    succeeded,
    tool_call,
    tool_calls,
    unknown,
)


def agent_with_find() -> Agent[None, str]:
    agent = Agent(system_prompt="SYS")

    @agent.tool_plain
    def find(x: int) -> str:
        raise AssertionError("a model Step runs no tool")

    return agent


def returns(messages: list[ModelMessage]) -> list[tuple[str, str, Any]]:
    """The tool results that a model was sent last."""
    assert isinstance(messages[-1], ModelRequest)
    return [
        (part.tool_call_id, part.outcome, part.content)
        for part in messages[-1].parts
        if isinstance(part, ToolReturnPart)
    ]


@pytest.mark.parametrize(
    ("record", "outcome", "content"),
    [
        (succeeded("a", "found"), "success", "found"),
        (succeeded("a", '{"x": 1}'), "success", '{"x": 1}'),
        (rejected("a", "Not today."), "denied", "Not today."),
        (failed("a", "no such order"), "failed", "The tool call failed: no such order"),
        (unknown("a"), "failed", OUTCOME_UNKNOWN_TOOL_RESULT),
    ],
    ids=lambda value: getattr(value, "status", None),
)
async def test_resume__gives_the_model_the_result_of_the_record(
    record: AgentToolCall, outcome: str, content: str
) -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"])
    played = Session(PydanticAIRunner(agent_with_find(), model=model))
    await played.ask("hi")

    resumed = await played.resume(record)

    assert returns(model.received[1]) == [("a", outcome, content)]
    assert isinstance(resumed, TurnCompleted)


async def test_resume__gives_every_call_its_own_result_in_model_order() -> None:
    model = ScriptedModel(
        tool_calls(*[("find", '{"x":1}', call_id) for call_id in "dcba"]), ["done"]
    )
    played = Session(PydanticAIRunner(agent_with_find(), model=model))
    await played.ask("hi")

    await played.resume(
        unknown("a"), rejected("b", "no"), failed("c", "broken"), succeeded("d", "1")
    )

    assert [call_id for call_id, _, _ in returns(model.received[1])] == ["d", "c", "b", "a"]


async def test_resume__goes_on_over_several_rounds_of_tools() -> None:
    model = ScriptedModel(
        tool_calls(("find", '{"x":1}', "a")), tool_calls(("find", '{"x":2}', "b")), ["done"]
    )
    played = Session(PydanticAIRunner(agent_with_find(), model=model))

    await played.ask("hi")
    second = await played.resume(succeeded("a", "1"))
    third = await played.resume(succeeded("b", "2"))

    assert isinstance(second, ToolCallsRequested)
    assert isinstance(third, TurnCompleted)
    assert [message.role for message in played.messages] == [
        *("user", "user"),  # the prompt, and the opening request with the system prompt
        *("assistant", "tool", "assistant", "tool", "assistant"),
    ]


async def test_resume__takes_the_result_of_a_tool_that_is_gone() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"])
    played = Session(PydanticAIRunner(agent_with_find(), model=model))
    await played.ask("hi")

    played.runner = PydanticAIRunner(Agent(), model=model)
    resumed = await played.resume(succeeded("a", "1"))

    assert isinstance(resumed, TurnCompleted)
    assert returns(model.received[1]) == [("a", "success", "1")]


async def test_resume__repeats_the_same_input_on_a_retry() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["once"], ["twice"])
    runner = PydanticAIRunner(agent_with_find(), model=model)
    played = Session(runner)
    await played.ask("hi")
    played.records = {succeeded("a", "1").tool_call_id: succeeded("a", "1")}
    turn = played.context()

    await runner.run_model_step(turn)
    await runner.run_model_step(attrs.evolve(turn, attempt=2))

    assert [returns(sent) for sent in model.received[1:]] == [[("a", "success", "1")]] * 2
    assert len(model.received[1]) == len(model.received[2])


async def test_resume__refuses_a_call_without_a_final_record() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")))
    played = Session(PydanticAIRunner(agent_with_find(), model=model))
    await played.ask("hi")

    with pytest.raises(ModelStepFailed, match="tool call a has no final record to go on with"):
        await played.resume(Runnable(requested("a")))
    played.records.clear()
    with pytest.raises(ModelStepFailed, match="tool call a has no final record to go on with"):
        await played.resume()


async def test_resume__refuses_a_run_state_that_it_did_not_write() -> None:
    played = Session(PydanticAIRunner(agent_with_find(), model=ScriptedModel()))
    played.speak("hi")
    played.run_state = '{"messages": 7}'

    with pytest.raises(ModelStepFailed, match="run state of the turn cannot be read"):
        await played.call_model()


# --- the user speaks meanwhile ---------------------------------------------------------------


def said(messages: list[ModelMessage]) -> list[object]:
    """Everything that a user said in a model's input."""
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


async def test_steering__stands_beside_the_results_and_enters_history_once() -> None:
    model = ScriptedModel(
        tool_calls(("find", '{"x":1}', "a")),
        tool_calls(("find", '{"x":2}', "b")),
        ["done"],
        ["bye"],
    )
    played = Session(PydanticAIRunner(agent_with_find(), model=model))

    await played.ask("hi")
    await played.resume(succeeded("a", "1"), steering=("Make it quick.",))
    await played.resume(succeeded("b", "2"))
    await played.ask("thanks")

    assert returns(model.received[1]) == [("a", "success", "1")]
    assert [said(sent) for sent in model.received] == [
        ["hi"],
        ["hi", "Make it quick."],
        ["hi", "Make it quick."],
        ["hi", "Make it quick.", "thanks"],
    ]
    assert [(message.role.value, message.text) for message in played.messages] == [
        ("user", "hi"),
        ("user", None),
        ("assistant", None),
        ("tool", "1"),
        ("user", "Make it quick."),
        ("assistant", None),
        ("tool", "2"),
        ("assistant", "done"),
        ("user", "thanks"),
        ("assistant", "bye"),
    ]


async def test_steering__keeps_several_messages_in_order() -> None:
    model = ScriptedModel(tool_calls(("find", '{"x":1}', "a")), ["done"])
    played = Session(PydanticAIRunner(agent_with_find(), model=model))

    await played.ask("hi")
    await played.resume(rejected("a", "superseded"), steering=("Stop.", "Tell me \ud800 first."))

    assert said(model.received[1]) == ["hi", ["Stop.", "Tell me \ufffd first."]]
    assert played.messages[4].text == "Stop.\n\nTell me \ufffd first."


# --- a turn without an answer ----------------------------------------------------------------


async def test_unfinished_turn__keeps_its_items_with_a_result_for_every_call() -> None:
    model = ScriptedModel(
        ["let me see", *tool_calls(*[("find", '{"x":1}', call_id) for call_id in "abcde"])], ["ok"]
    )
    runner = PydanticAIRunner(agent_with_find(), model=model)
    played = Session(runner)
    await played.ask("hi")

    kept = runner.build_unfinished_turn_messages(
        played.unfinished(
            succeeded("a", "found"),
            rejected("b", "Not today."),
            failed("c", "broken"),
            unknown("d"),
            Cancelled(requested("e")),
        )
    )
    assert kept is not None
    played.keep(kept)
    await played.ask("and now?")

    results = [
        (part.tool_call_id, part.outcome, part.content)
        for message in model.received[1]
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert results == [
        ("a", "success", "found"),
        ("b", "denied", "Not today."),
        ("c", "failed", "The tool call failed: broken"),
        ("d", "failed", OUTCOME_UNKNOWN_TOOL_RESULT),
        ("e", "failed", describe_tool_call_outcome(Cancelled(requested("e")))),
    ]
    assert said(model.received[1]) == ["hi", "and now?"]
    assert [(message.role.value, message.text) for message in played.messages] == [
        *(("user", "hi"), ("user", None), ("assistant", "let me see")),
        ("tool", "\n".join(f"find: {content}" for _, _, content in results)),
        *(("user", "and now?"), ("assistant", "ok")),
    ]


async def test_unfinished_turn__keeps_the_answers_that_other_calls_got_already() -> None:
    model = ScriptedModel(
        tool_calls(("find", '{"x":"bad"}', "a"), ("find", '{"x":1}', "b")), ["ok"]
    )
    runner = PydanticAIRunner(agent_with_find(), model=model)
    played = Session(runner)
    await played.ask("hi")

    kept = runner.build_unfinished_turn_messages(played.unfinished(succeeded("b", "found")))
    assert kept is not None
    played.keep(kept)
    await played.ask("and now?")

    answered = [
        (part.tool_call_id, part.outcome)
        for message in model.received[1]
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert answered == [("a", "retried"), ("b", "success")]


async def test_unfinished_turn__is_left_to_a_note_when_it_cannot_be_read() -> None:
    runner = PydanticAIRunner(
        agent_with_find(), model=ScriptedModel(tool_calls(("find", '{"x":1}', "a")))
    )
    played = Session(runner)
    await played.ask("hi")

    assert runner.build_unfinished_turn_messages(played.unfinished()) is None
    played.run_state = "nonsense"
    assert runner.build_unfinished_turn_messages(played.unfinished()) is None


def test_unfinished_turn__is_part_of_the_runner() -> None:
    assert isinstance(PydanticAIRunner(Agent()), KeepsUnfinishedTurns)


# --- tools that are found by searching -------------------------------------------------------


def searching_agent() -> Agent[None, str]:
    agent = Agent()

    @agent.tool_plain(defer_loading=True)
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city}"

    return agent


async def test_tool_search__is_a_read_of_its_own_and_reveals_the_tool() -> None:
    model = ScriptedModel(
        [tool_call("search_tools", '{"queries":["weather"]}', "s")],
        [tool_call("weather", '{"city":"Rome"}', "w")],
        ["sunny"],
    )
    runner = PydanticAIRunner(searching_agent(), model=model)
    played = Session(runner)

    first = await played.ask("weather?")
    assert isinstance(first, ToolCallsRequested)
    [search] = first.tool_calls
    assert (search.tool_name, search.policy.effect) == ("search_tools", ToolEffect.READ)

    found = await runner.execute_deferred_tool_call(execution("search_tools", search.arguments))
    second = await played.resume(succeeded("s", found.output))
    assert isinstance(second, ToolCallsRequested)
    assert [call.tool_name for call in second.tool_calls] == ["weather"]
    assert any(
        isinstance(part, ToolSearchReturnPart)
        for message in model.received[1]
        for part in message.parts
    )
    assert "weather" in [tool.name for tool in model.infos[1].function_tools]

    report = await runner.execute_deferred_tool_call(execution("weather", '{"city":"Rome"}'))
    assert report.output == "sunny in Rome"
    assert isinstance(await played.resume(succeeded("w", report.output)), TurnCompleted)


@pytest.mark.parametrize(
    ("output", "is_revealed"),
    [
        ('{"discovered_tools": [{"name": "weather", "description": null}]}', True),
        ('{"discovered_tools": [{"na... [cut]', False),
    ],
    ids=["whole", "cut"],
)
async def test_tool_search__is_kept_in_a_turn_without_an_answer(
    output: str, is_revealed: bool
) -> None:
    model = ScriptedModel([tool_call("search_tools", '{"queries":["weather"]}', "s")], ["ok"])
    runner = PydanticAIRunner(searching_agent(), model=model)
    played = Session(runner)
    await played.ask("weather?")

    kept = runner.build_unfinished_turn_messages(played.unfinished(succeeded("s", output)))
    assert kept is not None
    played.keep(kept)
    await played.ask("and now?")

    offered = [tool.name for tool in model.infos[1].function_tools]
    assert ("weather" in offered) is is_revealed


async def test_tool_search__goes_on_when_its_result_was_cut() -> None:
    model = ScriptedModel([tool_call("search_tools", '{"queries":["weather"]}', "s")], ["done"])
    played = Session(PydanticAIRunner(searching_agent(), model=model))
    await played.ask("weather?")

    resumed = await played.resume(succeeded("s", '{"discovered_tools": [{"na... [cut]'))

    assert isinstance(resumed, TurnCompleted)
