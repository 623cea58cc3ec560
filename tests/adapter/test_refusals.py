"""Agents and policies that cannot work are refused when they are given, with a reason and a remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    HandleDeferredToolCalls,
    Hooks,
    PrefixTools,
    PrepareTools,
    ReinjectSystemPrompt,
    Toolset,
)
from pydantic_ai.durable_exec._base import BaseDurabilityCapability
from pydantic_ai.tools import DeferredToolResults, Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset, FunctionToolset, WrapperToolset

from dex_agents_model import ToolEffect, ToolPolicy, TurnCompleted
from dex_agents_pydantic_ai import PydanticAIRunner, pydantic_ai_session_flow
from dex_agents_pydantic_ai.tool_names import static_tool_names

from .doubles import ScriptedModel, Session, execution, succeeded, tool_calls, with_policies

READ = ToolPolicy(ToolEffect.READ)


async def answer_nothing(
    ctx: RunContext[Any], *, requests: DeferredToolRequests
) -> DeferredToolResults | None:
    return None


@dataclass
class Greedy(AbstractCapability[Any]):
    """Declares what only the session's own capability may."""

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost", wraps=(AbstractCapability,))


@dataclass
class Outermost(AbstractCapability[Any]):
    """Outermost, but around named capabilities only."""

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost", wraps=(ReinjectSystemPrompt,))


@dataclass
class Answers(AbstractCapability[Any]):
    """Answers deferred calls by a method of its own."""

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        return None


class Durable(BaseDurabilityCapability[Any]):
    """An engine that makes runs durable by itself, bound to nothing."""

    def __init__(self) -> None:
        pass

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> Durable:
        return self

    @property
    def in_durable_context(self) -> bool:
        return False

    def get_durable_operation_backend(self) -> Any:
        raise AssertionError("no engine is there")


def refusal(agent: Agent[Any, Any] | WrapperAgent[Any, Any]) -> str:
    with pytest.raises(ValueError, match=r".") as raised:
        PydanticAIRunner(agent)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- agents ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        (HandleDeferredToolCalls(handler=lambda ctx, requests: None), "HandleDeferredToolCalls"),
        (Answers(), "Answers"),
        (Hooks(deferred_tool_calls=answer_nothing), "Hooks"),
        (PrefixTools(wrapped=Answers(), prefix="p"), "Answers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("wrap", [lambda agent: agent, WrapperAgent], ids=["agent", "wrapped"])
def test_refuse_unsuitable__a_capability_that_answers_deferred_calls(
    capability: AbstractCapability[Any], name: str, wrap: Callable[[Any], Any]
) -> None:
    said = refusal(wrap(Agent(capabilities=[capability])))

    assert f"the agent's capability {name} answers deferred tool calls itself" in said
    assert "remove it and give the tools a ToolPolicy" in said


def test_refuse_unsuitable__a_capability_that_wraps_everything() -> None:
    said = refusal(Agent(capabilities=[Greedy()]))

    assert "capability Greedy declares that it wraps every other one" in said
    assert "name the capabilities that it has to wrap" in said


def test_refuse_unsuitable__a_durability_capability() -> None:
    assert "made durable by Durable" in refusal(Agent(name="a", capabilities=[Durable()]))


def test_refuse_unsuitable__a_wrapper_that_makes_the_agent_durable() -> None:
    durable = type("TemporalAgent", (WrapperAgent,), {"__module__": "pydantic_ai.durable_exec.x"})

    said = refusal(durable(Agent()))

    assert "made durable by TemporalAgent" in said
    assert "build the session from the agent without it" in said


def test_refuse_unsuitable__output_validators_without_deferred_requests() -> None:
    agent = Agent()
    agent.output_validator(lambda output: output)

    assert "list DeferredToolRequests in its output_type" in refusal(agent)
    assert "list DeferredToolRequests in its output_type" in refusal(WrapperAgent(agent))


def test_refuse_unsuitable__accepts_output_validators_with_deferred_requests() -> None:
    agent = Agent(output_type=[str, DeferredToolRequests])
    agent.output_validator(lambda output: output)

    PydanticAIRunner(agent)


@pytest.mark.parametrize(
    "capability",
    [Hooks(), Outermost(), ReinjectSystemPrompt(), PrefixTools(wrapped=Hooks(), prefix="p")],
    ids=lambda value: type(value).__name__,
)
def test_refuse_unsuitable__accepts_capabilities_that_leave_deferral_alone(
    capability: AbstractCapability[Any],
) -> None:
    PydanticAIRunner(Agent(capabilities=[capability]))


async def test_runner__stores_no_settings_of_an_agent_so_that_they_need_no_json_form() -> None:
    agent = Agent(
        tools=[f],
        model_settings={"extra_body": object()},
        metadata={"secret": object()},
        validation_context=object(),
    )
    model = ScriptedModel(tool_calls(("f", "{}", "a")), ["done"])
    runner = PydanticAIRunner(agent, model=model, deps_factory=lambda session: object())
    played = Session(runner)

    await played.ask("hi")
    result = await runner.execute_deferred_tool_call(execution("f"))

    assert isinstance(await played.resume(succeeded("a", result.output)), TurnCompleted)


# --- policies --------------------------------------------------------------------------------


class Renames(WrapperToolset[Any]):
    """A wrapper of which nothing is known."""


@dataclass
class Wraps(AbstractCapability[Any]):
    """Puts a wrapper around all tools."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return Renames(toolset)


class ListsItself(FunctionToolset[Any]):
    """A toolset that lists what it likes."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, Any]:
        return await super().get_tools(ctx)


def f() -> str:
    return "f"


async def keep(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
    return definition


async def keep_all(ctx: RunContext[Any], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
    return definitions


def functions() -> FunctionToolset[Any]:
    return FunctionToolset([f])


STATIC: dict[str, tuple[Callable[[], Agent[Any, Any]], frozenset[str]]] = {
    "no tools": (Agent, frozenset()),
    "function": (lambda: Agent(tools=[f]), frozenset({"f"})),
    "toolset": (lambda: Agent(toolsets=[functions()]), frozenset({"f"})),
    "prefixed": (lambda: Agent(toolsets=[functions().prefixed("p")]), frozenset({"p_f"})),
    "renamed": (lambda: Agent(toolsets=[functions().renamed({"g": "f"})]), frozenset({"g"})),
    "filtered": (
        lambda: Agent(toolsets=[functions().filtered(lambda ctx, d: True)]),
        frozenset({"f"}),
    ),
    "prepared": (lambda: Agent(toolsets=[functions().prepared(keep_all)]), frozenset({"f"})),
    "approval": (lambda: Agent(toolsets=[functions().approval_required()]), frozenset({"f"})),
    "external": (
        lambda: Agent(toolsets=[ExternalToolset([ToolDefinition(name="e")])]),
        frozenset({"e"}),
    ),
    "capability": (lambda: Agent(capabilities=[Toolset(functions())]), frozenset({"f"})),
    "prefixing capability": (
        lambda: Agent(capabilities=[PrefixTools(wrapped=Toolset(functions()), prefix="p")]),
        frozenset({"p_f"}),
    ),
    "preparing capability": (
        lambda: Agent(tools=[f], capabilities=[PrepareTools(keep_all)]),
        frozenset({"f"}),
    ),
}

DYNAMIC: dict[str, Callable[[], Agent[Any, Any]]] = {
    "toolset function": lambda: Agent(toolsets=[lambda ctx: functions()]),
    "prefixed toolset function": lambda: Agent(
        capabilities=[PrefixTools(wrapped=Toolset(lambda ctx: functions()), prefix="p")]
    ),
    "own toolset": lambda: Agent(toolsets=[ListsItself([f])]),
    "own wrapper": lambda: Agent(toolsets=[Renames(functions())]),
    "prepared tool": lambda: Agent(tools=[Tool(f, prepare=keep)]),
    "capability function": lambda: Agent(capabilities=[lambda ctx: Toolset(functions())]),
    "wrapping capability": lambda: Agent(tools=[f], capabilities=[Wraps()]),
}


@pytest.mark.parametrize("case", STATIC)
def test_static_tool_names__are_those_that_the_model_calls(case: str) -> None:
    build, names = STATIC[case]

    assert static_tool_names(build()) == names | {"search_tools", "load_capability"}


@pytest.mark.parametrize("case", DYNAMIC)
def test_static_tool_names__are_unknown_where_only_a_run_can_tell(case: str) -> None:
    assert static_tool_names(DYNAMIC[case]()) is None


def test_session_flow__refuses_a_policy_for_a_tool_that_the_agent_lacks() -> None:
    with pytest.raises(ValueError, match="'fnid'") as raised:
        pydantic_ai_session_flow(Agent(tools=[f]), flow_type="A", tool_policies={"fnid": READ})

    assert str(raised.value) == (
        "tool_policies names 'fnid', which the agent does not have; it has 'f'. Correct the name,"
        " or pass allow_missing_tools=True when a tool was removed on purpose"
    )


@pytest.mark.parametrize(
    ("agent", "policies", "allow"),
    [
        (Agent(tools=[f]), {"f": READ, "search_tools": READ}, False),
        (Agent(tools=[f]), {"gone": READ}, True),
        (Agent(toolsets=[lambda ctx: functions()]), {"unknown": READ}, False),
    ],
)
def test_session_flow__accepts_policies_that_may_meet_a_tool(
    agent: Agent[Any, Any], policies: dict[str, ToolPolicy], allow: bool
) -> None:
    pydantic_ai_session_flow(
        agent, flow_type="A", tool_policies=policies, allow_missing_tools=allow
    )


async def test_runner__warns_of_a_missing_tool_at_the_first_listing_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(toolsets=[lambda ctx: functions()])
    played = Session(
        PydanticAIRunner(agent, model=ScriptedModel(["one"], ["two"])),
        options=with_policies(f=READ, fnid=READ),
    )

    with caplog.at_level(logging.WARNING, "dex_agents_pydantic_ai"):
        await played.ask("first")
        await played.ask("second")

    assert [record.getMessage() for record in caplog.records] == [
        "tool_policies names 'fnid', which the agent does not list; it lists f"
    ]


async def test_runner__does_not_warn_of_tools_that_may_be_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = PydanticAIRunner(Agent(), model=ScriptedModel(["one"]), allow_missing_tools=True)

    await Session(runner, options=with_policies(gone=READ)).ask("first")

    assert caplog.records == []


async def test_runner__warns_once_of_each_tool_that_cannot_be_sequential(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(ScriptedModel(["one"], ["two"]), toolsets=[functions()])

    @agent.tool_plain(sequential=True)
    def alone() -> str:
        return ""

    played = Session(PydanticAIRunner(agent))

    await played.ask("first")
    await played.ask("second")

    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("the tool 'alone' is sequential, but in a session")
