"""An agent that ends its turn with data: the session stores the final result, and a client reads it back as a type."""

import asyncio
from collections.abc import AsyncIterator

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentRuntime, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import pydantic_ai_session_flow


class Verdict(BaseModel):
    """What the agent makes of an order."""

    order_id: str
    is_late: bool
    days: int


async def script(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """What a good model would say: look the order up, then judge it."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        verdict = Verdict(order_id="7", is_late=True, days=3)
        yield {0: DeltaToolCall("final_result", verdict.model_dump_json(), tool_call_id="call-2")}
    else:
        yield {0: DeltaToolCall("find_order", '{"order_id": "7"}', tool_call_id="call-1")}


agent = Agent(FunctionModel(stream_function=script), output_type=Verdict)


@agent.tool_plain
def find_order(order_id: str) -> str:
    """Return the state of an order."""
    return f"order {order_id} was promised three days ago and has not arrived"


flow = pydantic_ai_session_flow(
    agent,
    flow_type="OrderJudge",
    tool_policies={"find_order": ToolPolicy(ToolEffect.READ)},
)


async def main() -> None:
    async with AgentRuntime(flow) as runtime:
        sessions = runtime.sessions(flow)
        await sessions.start_session("judging-7")
        turn = await sessions.run_turn("judging-7", "Is order 7 late?")
        verdict = Verdict.model_validate(turn.output)
        print(f"order {verdict.order_id}: {verdict.days} days late")


if __name__ == "__main__":
    asyncio.run(main())
