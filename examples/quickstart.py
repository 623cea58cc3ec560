"""The program of the README: one durable session, and a person who approves its refund."""

import asyncio

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from dex_agents_dex import AgentRuntime, ToolEffect, ToolPolicy
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow

agent = Agent(TestModel(), instructions="You handle orders.")  # or Agent("openai:gpt-5.2", ...)


@agent.tool_plain
def find_order(order_id: str) -> str:
    """Return the status of an order."""
    return f"order {order_id} was delivered"


@agent.tool
def refund_order(ctx: RunContext[object], order_id: str) -> str:
    """Pay an order back."""
    return f"refunded order {order_id} under key {deferred_tool_idempotency_key(ctx)}"


flow = pydantic_ai_session_flow(
    agent,
    flow_type="OrderAgent",
    tool_policies={
        "find_order": ToolPolicy(ToolEffect.READ),
        "refund_order": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE, requires_approval=True),
    },
)


async def main() -> None:
    async with AgentRuntime(flow) as runtime:  # a Worker, a client and, without a server, an engine
        sessions = runtime.sessions(flow)
        await sessions.start_session("order-session-7")
        turn = asyncio.create_task(sessions.run_turn("order-session-7", "Refund order 7."))
        while not turn.done():
            snapshot = await sessions.get_agent_snapshot("order-session-7")
            for question in snapshot.pending_interrupts:
                print(f"approving {question.tool_name} {question.arguments}")
                await sessions.resolve_interrupt(
                    "order-session-7",
                    question.interrupt_id,
                    approved=True,
                    arguments_digest=question.arguments_digest,  # these arguments and no others
                )
            await asyncio.wait({turn}, timeout=0.1)
        print((await turn).answer)


if __name__ == "__main__":
    asyncio.run(main())
