"""The agent is the application's: in a session it does what it does without one, and is left as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from dex_agents_model import (
    AgentSessionOptions,
    Succeeded,
    ToolCallsRequested,
    ToolEffect,
    ToolPolicy,
)
from dex_agents_pydantic_ai import PydanticAIRunner

from .doubles import Session, execution, loaded, requested

CALL = ToolCallPart("refund", {"order_id": "7"}, "a")


class Refunds:
    """A model that asks for one refund and tells what came of it, streamed or not, and keeps its input."""

    def __init__(self) -> None:
        self.received: list[tuple[list[object], list[str]]] = []
        self.model = FunctionModel(self.whole, stream_function=self.streamed)

    def next_part(self, messages: list[ModelMessage], info: AgentInfo) -> TextPart | ToolCallPart:
        parts = [part for message in messages for part in message.parts]
        contents = [
            part.content for part in parts if isinstance(part, UserPromptPart | ToolReturnPart)
        ]
        self.received.append((contents, [tool.name for tool in info.function_tools]))
        told = [part for part in parts if isinstance(part, ToolReturnPart)]
        return TextPart(f"I did it: {told[0].content}") if told else CALL

    def whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([self.next_part(messages, info)])

    async def streamed(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        part = self.next_part(messages, info)
        if isinstance(part, TextPart):
            yield part.content
        else:
            arguments = part.args_as_json_str()
            yield {1: DeltaToolCall(part.tool_name, arguments, tool_call_id=part.tool_call_id)}


def refund_agent(ran: list[str]) -> Agent[object, str]:
    agent = Agent(name="refunds", instructions="You refund orders.")

    @agent.tool
    def refund(ctx: RunContext[object], order_id: str) -> ToolReturn[str]:
        ran.append(order_id)
        return ToolReturn(f"refunded {order_id}", content="Be kind.", metadata={"paid": 1})

    return agent


async def in_a_session(agent: Agent[object, str], model: FunctionModel) -> str | None:
    runner = PydanticAIRunner(agent, model=model)
    policies = {"refund": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE)}
    played = Session(runner, AgentSessionOptions(tool_policies=policies))
    asked = await played.ask("Refund order 7.")
    assert isinstance(asked, ToolCallsRequested)
    [call] = asked.tool_calls
    result = await runner.execute_deferred_tool_call(execution(call.tool_name, call.arguments))
    record = requested(call.tool_call_id, call.tool_name, call.arguments)
    await played.resume(Succeeded(record, result.output, False, result.framework_content))
    return played.messages[-1].text


async def plainly(agent: Agent[object, str], model: FunctionModel) -> str | None:
    return (await agent.run("Refund order 7.", model=model)).output


async def test_agent__does_the_same_plainly_before_in_and_after_a_session() -> None:
    ran: list[str] = []
    agent = refund_agent(ran)
    before = dict(vars(agent))
    answers: list[str | None] = []
    inputs: list[Any] = []

    for run in (plainly, in_a_session, plainly):
        refunds = Refunds()
        answers.append(await run(agent, refunds.model))
        inputs.append(refunds.received)

    assert answers == ["I did it: refunded 7"] * 3
    assert ran == ["7"] * 3
    assert inputs[0] == [
        (["Refund order 7."], ["refund"]),
        (["Refund order 7.", "refunded 7", "Be kind."], ["refund"]),
    ]
    assert inputs[1:] == inputs[:1] * 2
    assert dict(vars(agent)) == before


async def test_code_of_the_agent__sees_the_prompt_and_the_step_of_a_plain_run() -> None:
    seen: list[object] = []
    agent = refund_agent([])

    @agent.instructions
    def note(ctx: RunContext[object]) -> str:
        seen.append((ctx.prompt, ctx.run_step))
        return ""

    @agent.toolset(per_run_step=True)
    def of_the_step(ctx: RunContext[object]) -> FunctionToolset[object]:
        seen.append(ctx.run_step)
        return FunctionToolset()

    await plainly(agent, Refunds().model)
    in_a_plain_run = seen.copy()
    seen.clear()
    await in_a_session(agent, Refunds().model)

    prompt = "Refund order 7."
    assert in_a_plain_run == [1, (prompt, 1), 2, (prompt, 2)]
    # Each Step of a session builds the tools for itself: the model's, the tool's, the model's.
    assert seen == [1, (prompt, 1), 1, 1, 2, (prompt, 2)]


async def test_session__goes_on_in_a_plain_run() -> None:
    agent = refund_agent([])
    runner = PydanticAIRunner(agent, model=Refunds().model)
    played = Session(runner)
    await played.ask("Refund order 7.")
    await played.resume(Succeeded(requested("a", "refund"), "refunded 7"))
    history = [loaded(message) for message in played.messages]

    plain = await agent.run("Thanks.", message_history=history, model=Refunds().model)

    assert plain.output == "I did it: refunded 7"
