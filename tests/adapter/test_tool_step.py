"""One tool runs once: what each way of ending becomes. No model may be called in any of these."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability, PrepareTools
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ApprovalRequiredToolset, ExternalToolset, FunctionToolset

from dex_agents_model import (
    SessionId,
    ToolEffect,
    ToolExecutionError,
    ToolNotStarted,
    ToolOutcomeUnknown,
)
from dex_agents_pydantic_ai import (
    IDEMPOTENCY_KEY_METADATA_KEY,
    PydanticAIRunner,
    deferred_tool_idempotency_key,
)
from dex_agents_pydantic_ai.errors import ToolStepFailed

from .doubles import execution, no_model

SHORT = 0.01  # seconds, of a timeout that is meant to run out
LONG = 30.0  # seconds, of work that is meant to be cut off


class Weather(BaseModel):
    """What a tool returns."""

    city: str
    degrees: int


async def stuck() -> None:
    """Work that goes on until it is cut off."""
    await asyncio.wait_for(asyncio.Event().wait(), LONG)


async def run(agent: Agent[Any, Any], name: str, arguments: str = "{}", **call: Any) -> str:
    runner = PydanticAIRunner(agent, model=no_model())
    result = await runner.execute_deferred_tool_call(execution(name, arguments, **call))
    return result.output


def agent_with(tool: Callable[..., Any], **settings: Any) -> Agent[None, str]:
    agent = Agent(retries=settings.pop("agent_retries", 1))
    agent.tool(name="tool", **settings)(tool)
    return agent


# --- a tool that returns ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, ""),
        (7, "7"),
        ({"x": 1}, '{"x":1}'),
        ([1, "a"], '[1,"a"]'),
        (Weather(city="Rome", degrees=30), '{"city":"Rome","degrees":30}'),
        (ToolReturn("visible", metadata={"hidden": 1}), "visible"),
    ],
)
async def test_tool_step__returns_the_value_as_the_model_would_see_it(
    value: object, output: str
) -> None:
    async def tool(ctx: RunContext[object]) -> Any:
        return value

    assert await run(agent_with(tool), "tool") == output


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("a\ud800b\x00c\x7f\N{GRINNING FACE}", "a\ufffdb\ufffdc\x7f\N{GRINNING FACE}"),
        ({"k\ud800": ["\udfff"]}, '{"k\ufffd":["\ufffd"]}'),
        (Weather.model_construct(city="R\ud800", degrees=1), '{"city":"R\ufffd","degrees":1}'),
        ([{"a": "\ud800"}], '[{"a":"\ufffd"}]'),
        ({7: "\ud800"}, '{"7":"\ufffd"}'),
        (
            [{"a": "\ud800"}, BinaryContent(b"x", media_type="image/png")],
            '{"a":"\ufffd"}\n[image/png, 1 bytes]',
        ),
    ],
)
async def test_tool_step__replaces_what_text_cannot_hold(value: object, output: str) -> None:
    async def tool(ctx: RunContext[object]) -> Any:
        return value

    assert await run(agent_with(tool), "tool") == output


class Scan(BaseModel):
    """What Pydantic can only write as JSON when the bytes are text."""

    page: bytes


def circle() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [object(), Scan(page=b"\xff"), {"page": Scan(page=b"\xff")}, circle(), {"a": circle()}],
    ids=["an object", "bytes in a model", "deeper", "a circle", "a circle in data"],
)
async def test_tool_step__says_that_a_tool_ran_whose_result_has_no_json_form(value: object) -> None:
    async def tool(ctx: RunContext[object]) -> Any:
        return value

    with pytest.raises(ToolExecutionError, match="tool ran, but its result has no JSON form"):
        await run(agent_with(tool), "tool")


async def test_tool_step__runs_the_hooks_of_the_agent_around_the_tool() -> None:
    called: list[str] = []

    @dataclass
    class Hooks(AbstractCapability[Any]):
        async def before_tool_validate(
            self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
        ) -> Any:
            called.append(f"validate {args}")
            return args

        async def after_tool_execute(
            self,
            ctx: RunContext[Any],
            *,
            call: ToolCallPart,
            tool_def: ToolDefinition,
            args: Any,
            result: Any,
        ) -> Any:
            called.append(f"executed {result}")
            return f"<{result}>"

    agent = Agent(capabilities=[Hooks()])

    @agent.tool_plain
    def tool(x: int) -> int:
        return x

    assert await run(agent, "tool", '{"x":1}') == "<1>"
    assert called == ['validate {"x":1}', "executed 1"]


# --- what a tool sees ------------------------------------------------------------------------


@pytest.mark.parametrize("approved", [False, True])
async def test_tool_step__shows_the_tool_its_call_alone(approved: bool) -> None:
    seen: list[object] = []

    async def tool(ctx: RunContext[object]) -> str:
        seen.extend(
            [
                ctx.tool_call_approved,
                ctx.tool_call_id,
                ctx.conversation_id,
                ctx.prompt,
                [type(message) for message in ctx.messages],
                (ctx.usage.requests, ctx.usage.input_tokens),
            ]
        )
        return ""

    await run(agent_with(tool), "tool", approved=approved)

    assert seen == [approved, "call", "session-1", None, [ModelResponse], (0, 0)]


async def test_tool_step__maps_the_session_called_new() -> None:
    async def tool(ctx: RunContext[object]) -> str:
        return str(ctx.conversation_id)

    assert await run(agent_with(tool), "tool", flow_id=SessionId("new")) == "session:new"


async def test_idempotency_key__is_that_of_the_execution() -> None:
    async def tool(ctx: RunContext[object]) -> str:
        metadata = ctx.metadata or {}
        return f"{deferred_tool_idempotency_key(ctx)} {metadata[IDEMPOTENCY_KEY_METADATA_KEY]}"

    key = "session-1/turn-1/call-7"
    assert await run(agent_with(tool), "tool", call_id="call-7") == f"{key} {key}"


async def test_idempotency_key__leaves_the_agents_own_metadata_alone() -> None:
    agent = Agent(metadata={"team": "orders"})

    @agent.tool
    async def tool(ctx: RunContext[object]) -> str:
        return str((ctx.metadata or {}).get("team"))

    assert await run(agent, "tool") == "orders"


async def test_idempotency_key__is_none_outside_a_session() -> None:
    agent = Agent()
    seen: list[str | None] = []

    @agent.tool
    async def tool(ctx: RunContext[object]) -> str:
        seen.append(deferred_tool_idempotency_key(ctx))
        return "x"

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asks = len(messages) == 1
        return ModelResponse([ToolCallPart("tool", {}, "a") if asks else TextPart("done")])

    await agent.run("hi", model=FunctionModel(model))

    assert seen == [None]


async def test_tool_step__builds_dependencies_from_the_session() -> None:
    agent = Agent(deps_type=str)

    @agent.tool
    async def tool(ctx: RunContext[str]) -> str:
        return ctx.deps

    runner = PydanticAIRunner(agent, model=no_model(), deps_factory=lambda session: f"<{session}>")
    result = await runner.execute_deferred_tool_call(execution("tool"))

    assert result.output == "<session-1>"


async def test_tool_step__says_that_the_dependencies_failed() -> None:
    def factory(session: str) -> None:
        raise OSError("no database")

    runner = PydanticAIRunner(Agent(), model=no_model(), deps_factory=factory)
    with pytest.raises(ToolNotStarted, match="deps_factory raised OSError: no database"):
        await runner.execute_deferred_tool_call(execution("tool"))


async def test_tool_step__enters_and_leaves_each_toolset_once() -> None:
    entered: list[str] = []

    class Connected(FunctionToolset[None]):
        async def __aenter__(self) -> Self:
            entered.append("in")
            return self

        async def __aexit__(self, *args: object) -> None:
            entered.append("out")

    toolset = Connected()
    toolset.add_function(lambda: "x", name="tool")

    assert await run(Agent(toolsets=[toolset]), "tool") == "x"
    assert entered == ["in", "out"]


async def test_tool_step__says_what_kept_a_toolset_from_connecting() -> None:
    class Unreachable(FunctionToolset[None]):
        async def __aenter__(self) -> Self:
            raise ExceptionGroup("several", [OSError("no route"), ExceptionGroup("", [OSError()])])

    toolset = Unreachable()
    toolset.add_function(lambda: "x", name="tool")

    with pytest.raises(ToolNotStarted, match="tool tool raised OSError: no route; OSError"):
        await run(Agent(toolsets=[toolset]), "tool")


async def test_tool_step__runs_at_the_same_time_as_itself() -> None:
    both = asyncio.Barrier(2)

    async def tool(ctx: RunContext[object]) -> str:
        await asyncio.wait_for(both.wait(), LONG)
        return ctx.tool_call_id or ""

    runner = PydanticAIRunner(agent_with(tool), model=no_model())
    results = await asyncio.gather(
        *(
            runner.execute_deferred_tool_call(execution("tool", call_id=call_id))
            for call_id in ("a", "b")
        )
    )

    assert [result.output for result in results] == ["a", "b"]


async def test_tool_step__does_not_let_a_queued_message_call_the_model() -> None:
    async def tool(ctx: RunContext[object]) -> str:
        ctx.enqueue("tell the model")
        return "ok"

    assert await run(agent_with(tool), "tool") == "ok"


async def test_tool_step__fails_when_a_hook_breaks_after_the_tool_ran() -> None:
    @dataclass
    class Breaks(AbstractCapability[Any]):
        async def after_tool_execute(
            self,
            ctx: RunContext[Any],
            *,
            call: ToolCallPart,
            tool_def: ToolDefinition,
            args: Any,
            result: Any,
        ) -> Any:
            raise RuntimeError("broken hook")

    agent = Agent(capabilities=[Breaks()])

    @agent.tool_plain
    def tool() -> str:
        return "x"

    with pytest.raises(ToolStepFailed, match="RuntimeError: broken hook"):
        await run(agent, "tool")


# --- the table -------------------------------------------------------------------------------

Ending = Literal["error", "unknown", "failure"]


async def retries(ctx: RunContext[object]) -> str:
    raise ModelRetry("try again with an order")


async def fails(ctx: RunContext[object]) -> str:
    raise ToolFailed("there is no such order")


async def raises(ctx: RunContext[object]) -> str:
    raise ValueError("boom")


async def raises_validation_error(ctx: RunContext[object]) -> str:
    return str(TypeAdapter(int).validate_python("no number"))


async def times_out(ctx: RunContext[object]) -> str:
    await stuck()
    return "late"


async def raises_timeout_error(ctx: RunContext[object]) -> str:
    raise TimeoutError("the bank did not answer")


async def retries_after_a_timeout(ctx: RunContext[object]) -> str:
    try:
        raise TimeoutError
    except TimeoutError:
        raise ModelRetry("Timed out after I asked the cache; try later") from None


async def asks_for_approval(ctx: RunContext[object]) -> str:
    raise ApprovalRequired


async def defers(ctx: RunContext[object]) -> str:
    raise CallDeferred


async def cancels_itself(ctx: RunContext[object]) -> str:
    raise asyncio.CancelledError


async def exits(ctx: RunContext[object]) -> str:
    raise SystemExit(3)


async def interrupts(ctx: RunContext[object]) -> str:
    raise KeyboardInterrupt


def interrupts_its_thread(ctx: RunContext[object]) -> str:
    raise KeyboardInterrupt


class Stop(BaseException):
    """What `except Exception` lets through."""


async def stops(ctx: RunContext[object]) -> str:
    raise Stop("here")


async def cancels_its_tasks(ctx: RunContext[object]) -> str:
    raise BaseExceptionGroup("its tasks", [asyncio.CancelledError(), KeyError("lost")])


async def sub_agent_breaks(ctx: RunContext[object]) -> str:
    confused = FunctionModel(lambda messages, info: ModelResponse([ToolCallPart("nope", {})]))
    return str((await Agent(confused).run("hi")).output)


async def sub_agent_times_out(ctx: RunContext[object]) -> str:
    async def slow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await stuck()
        return ModelResponse([])

    return str((await Agent(FunctionModel(slow)).run("hi", timeout=SHORT)).output)


ENDINGS_OF: dict[Ending, type[Exception]] = {
    "error": ToolExecutionError,
    "unknown": ToolOutcomeUnknown,
    "failure": ToolStepFailed,
}
ENDINGS: dict[str, tuple[Callable[..., Any], dict[str, Any], Ending, str]] = {
    "ModelRetry": (retries, {}, "error", "try again with an order"),
    "ModelRetry, spent": (retries, {"retries": 0}, "error", "try again with an order"),
    "ModelRetry after a timeout": (
        *(retries_after_a_timeout, {}, "error"),
        "Timed out after I asked the cache; try later",
    ),
    "ToolFailed": (fails, {}, "error", "there is no such order"),
    "raises": (raises, {}, "failure", "tool tool raised ValueError: boom"),
    "ValidationError in the body": (raises_validation_error, {}, "failure", "ValidationError"),
    "own timeout": (times_out, {"timeout": SHORT}, "failure", "Timed out after 0.01 seconds."),
    "own timeout, spent": (
        *(times_out, {"timeout": SHORT, "retries": 0}, "failure"),
        "Timed out after 0.01 seconds.",
    ),
    "TimeoutError in the body": (
        *(raises_timeout_error, {"timeout": LONG}, "failure"),
        "Timed out after 30.0 seconds.",
    ),
    "TimeoutError, no timeout": (raises_timeout_error, {}, "failure", "the bank did not answer"),
    "ApprovalRequired": (asks_for_approval, {}, "error", "requires_approval=True"),
    "CallDeferred": (defers, {}, "unknown", "deferred its call"),
    "CancelledError by itself": (cancels_itself, {}, "failure", "CancelledError"),
    "SystemExit": (exits, {}, "failure", "it raised SystemExit: 3"),
    "KeyboardInterrupt": (interrupts, {}, "failure", "it raised KeyboardInterrupt"),
    "KeyboardInterrupt in a thread": (
        *(interrupts_its_thread, {}, "failure"),
        "it raised KeyboardInterrupt",
    ),
    "no Exception": (stops, {}, "failure", "it raised Stop: here"),
    "CancelledError in a group": (
        *(cancels_its_tasks, {}, "failure"),
        "it raised CancelledError; KeyError: 'lost'",
    ),
    "sub-agent breaks": (sub_agent_breaks, {}, "failure", "UnexpectedModelBehavior"),
    "sub-agent breaks, no retries": (
        *(sub_agent_breaks, {"retries": 0}, "failure"),
        "UnexpectedModelBehavior",
    ),
    "sub-agent times out": (sub_agent_times_out, {}, "failure", "RunTimedOut"),
}


@pytest.mark.parametrize("approved", [False, True], ids=["plain", "approved"])
@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("case", ENDINGS)
async def test_tool_step__tells_a_tools_word_from_a_cut_off_run(
    case: str, effect: ToolEffect, approved: bool
) -> None:
    tool, settings, ending, words = ENDINGS[case]
    entered = 0

    async def counted(ctx: RunContext[object]) -> Any:
        nonlocal entered
        entered += 1
        return await tool(ctx)

    if case == "ApprovalRequired" and approved:
        words = "asked for approval again"
    with pytest.raises((ToolExecutionError, ToolStepFailed)) as raised:
        await run(agent_with(counted, **settings), "tool", effect=effect, approved=approved)

    assert (type(raised.value), entered) == (ENDINGS_OF[ending], 1)
    assert words in str(raised.value)


@pytest.mark.parametrize("approved", [False, True], ids=["plain", "approved"])
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("gone", "{}", "Unknown tool name: 'gone'"),
        ("tool", '{"x": "no number"}', "int_parsing"),
        ("tool", '{"x": 1', "json_invalid"),
        ("tool", "[1]", "dict_type"),
    ],
)
@pytest.mark.parametrize("retries", [0, 1])
async def test_tool_step__never_enters_a_tool_that_the_call_does_not_fit(
    name: str, arguments: str, words: str, approved: bool, retries: int
) -> None:
    async def tool(ctx: RunContext[object], x: int) -> str:
        raise AssertionError("it must not run")

    with pytest.raises(ToolExecutionError) as raised:
        await run(agent_with(tool, agent_retries=retries), name, arguments, approved=approved)

    assert words in str(raised.value)


async def test_tool_step__knows_no_tool_that_a_hook_hides_there() -> None:
    async def only_in_a_conversation(
        ctx: RunContext[Any], definitions: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        return definitions if ctx.prompt else []

    async def tool(ctx: RunContext[object]) -> str:
        raise AssertionError("it must not run")

    agent = Agent(capabilities=[PrepareTools(only_in_a_conversation)])
    agent.tool(tool)

    with pytest.raises(ToolExecutionError, match="Unknown tool name: 'tool'"):
        await run(agent, "tool")


async def test_tool_step__says_that_nothing_ran_when_a_validator_defers_the_call() -> None:
    def later(ctx: RunContext[object]) -> None:
        raise CallDeferred

    async def tool(ctx: RunContext[object]) -> str:
        raise AssertionError("it must not run")

    with pytest.raises(ToolExecutionError, match=r"deferred its call .* Nothing ran"):
        await run(agent_with(tool, args_validator=later), "tool")


@pytest.mark.parametrize("approved", [False, True])
async def test_tool_step__has_nothing_to_run_for_an_external_tool(approved: bool) -> None:
    agent = Agent(toolsets=[ExternalToolset([ToolDefinition(name="ext")])])

    with pytest.raises(ToolExecutionError, match=r"ext is an external tool.*Nothing ran"):
        await run(agent, "ext", approved=approved)


async def test_tool_step__runs_a_tool_that_asks_for_approval_once_a_person_gave_it() -> None:
    toolset = FunctionToolset[None]()
    toolset.add_function(lambda: "done", name="tool")
    agent = Agent(toolsets=[ApprovalRequiredToolset(toolset)])

    assert await run(agent, "tool", approved=True) == "done"
    with pytest.raises(ToolExecutionError, match="requires_approval=True"):
        await run(agent, "tool", approved=False)


async def test_tool_step__does_not_run_a_tool_that_came_to_need_approval() -> None:
    """A call recorded without approval meets a newer definition of its tool."""
    agent = Agent()

    @agent.tool_plain(requires_approval=True)
    def tool() -> str:
        return "done"

    assert await run(agent, "tool", approved=True) == "done"
    with pytest.raises(ToolExecutionError, match="requires_approval=True"):
        await run(agent, "tool", approved=False)


async def test_tool_step__respects_a_hook_that_turns_an_error_into_a_result() -> None:
    @dataclass
    class Recovers(AbstractCapability[Any]):
        async def on_tool_execute_error(
            self,
            ctx: RunContext[Any],
            *,
            call: ToolCallPart,
            tool_def: ToolDefinition,
            args: Any,
            error: Exception,
        ) -> Any:
            if "retry" in str(error):
                raise ModelRetry("ask again")
            return f"recovered from {error}"

    agent = Agent(capabilities=[Recovers()])

    @agent.tool_plain
    def tool(word: str) -> str:
        if word == "7":
            return str(TypeAdapter(list[str]).validate_python(word))
        raise LookupError(word)

    assert await run(agent, "tool", '{"word":"lost"}') == "recovered from lost"
    assert "recovered from 1 validation error" in await run(agent, "tool", '{"word":"7"}')
    with pytest.raises(ToolExecutionError, match="ask again"):
        await run(agent, "tool", '{"word":"retry"}')


async def test_tool_step__passes_on_a_cancellation_from_outside() -> None:
    inside = asyncio.Event()
    errors: list[Exception] = []

    @dataclass
    class Watches(AbstractCapability[Any]):
        async def on_tool_execute_error(
            self,
            ctx: RunContext[Any],
            *,
            call: ToolCallPart,
            tool_def: ToolDefinition,
            args: Any,
            error: Exception,
        ) -> Any:
            errors.append(error)
            return "recovered"

    agent = Agent(capabilities=[Watches()])

    @agent.tool
    async def tool(ctx: RunContext[object]) -> str:
        inside.set()
        await stuck()
        return "late"

    running = asyncio.create_task(run(agent, "tool"))
    await asyncio.wait_for(inside.wait(), LONG)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert errors == []


async def test_tool_step__times_out_a_sync_tool_that_goes_on_running() -> None:
    released = threading.Event()
    finished = threading.Event()

    def tool(ctx: RunContext[object]) -> str:
        released.wait(LONG)
        finished.set()
        return "late"

    with pytest.raises(ToolStepFailed, match="Timed out"):
        # Long enough for its thread to begin on a busy machine: one that never began would not go on.
        await run(agent_with(tool, timeout=1.0), "tool")
    assert not finished.is_set()
    released.set()
    assert await asyncio.to_thread(finished.wait, LONG)
