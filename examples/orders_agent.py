"""An agent that handles orders: reads, refunds with a person's consent, and sends mail. Run as a module it is a Worker.

Its tools do real work on files of one directory, so that what happened outlives any process.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from attrs import frozen
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from dex_agents_dex import AgentSessionFlow, ToolEffect, ToolPolicy
from dex_agents_dex.testing import FileGate, InvocationLog, run_agent_worker
from dex_agents_pydantic_ai import deferred_tool_idempotency_key, pydantic_ai_session_flow

STATE_DIR_VARIABLE = "ORDERS_STATE_DIR"
MODEL_VARIABLE = "ORDERS_MODEL"
REFUND_GATE = "refund paid"
ORDERS = {"7": "delivered, 42 EUR, paid by card"}


@frozen
class Shop:
    """What the tools work on: the ledger of payments, and a log of every call that really ran."""

    state_dir: Path

    @property
    def calls(self) -> InvocationLog:
        return InvocationLog(self.state_dir / "calls.jsonl")

    @property
    def gate(self) -> FileGate:
        return FileGate(self.state_dir, REFUND_GATE)

    def pay_back(self, key: str, order_id: str) -> str:
        """What a payment provider does: the same key is the same payment."""
        with closing(sqlite3.connect(self.state_dir / "ledger.db", isolation_level=None)) as ledger:
            ledger.execute(
                "create table if not exists refunds(key text primary key, order_id text)"
            )
            ledger.execute("insert or ignore into refunds values (?, ?)", (key, order_id))
            (number,) = ledger.execute("select rowid from refunds where key = ?", (key,)).fetchone()
        return f"refund-{number}"

    def refunds(self) -> int:
        """How many payments the provider has made."""
        if not (self.state_dir / "ledger.db").exists():
            return 0
        with closing(sqlite3.connect(self.state_dir / "ledger.db")) as ledger:
            (count,) = ledger.execute("select count(*) from refunds").fetchone()
        return int(count)


agent = Agent(
    instructions="You help customers of a shop. Look an order up before you refund it, and tell the customer.",
    deps_type=Shop,
)


@agent.tool
def find_order(ctx: RunContext[Shop], order_id: str) -> str:
    """Return the status of an order."""
    ctx.deps.calls.record("find_order")
    return ORDERS.get(order_id, "unknown order")


@agent.tool
async def refund_order(ctx: RunContext[Shop], order_id: str) -> str:
    """Pay an order back to the customer."""
    key = deferred_tool_idempotency_key(ctx) or order_id
    ctx.deps.calls.record("refund_order", key=key)
    payment = ctx.deps.pay_back(key, order_id)
    ctx.deps.gate.mark_reached()  # paid, but not yet told: the demo kills the Worker here
    await ctx.deps.gate.wait_for_release()
    return f"{payment} issued for order {order_id}"


@agent.tool
def email_customer(ctx: RunContext[Shop], order_id: str, text: str) -> str:
    """Send a mail to the customer who placed an order."""
    ctx.deps.calls.record("email_customer")
    return f"mail sent to the customer of order {order_id}"


def build_flow() -> AgentSessionFlow:
    """The agent as a durable session."""
    state_dir = Path(os.environ[STATE_DIR_VARIABLE])
    return pydantic_ai_session_flow(
        agent,
        flow_type="OrderAgent",
        model=os.environ.get(MODEL_VARIABLE) or scripted_model(),
        deps_factory=lambda session_id: Shop(state_dir),
        tool_policies={
            "find_order": ToolPolicy(ToolEffect.READ),
            "refund_order": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE, requires_approval=True),
            "email_customer": ToolPolicy(ToolEffect.NON_IDEMPOTENT_WRITE),
        },
    )


def scripted_model() -> Model:
    """A model that says what a good one would, so that the demo needs no key and no network."""
    steps = (
        ("Let me look at order 7. ", "find_order", '{"order_id": "7"}'),
        ("It was delivered; I will refund it. ", "refund_order", '{"order_id": "7"}'),
        ("Refunded. Now I tell the customer. ", "email_customer", '{"order_id": "7", "text": "We paid order 7 back."}'),
    )  # fmt: skip

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        requests = (message for message in messages if isinstance(message, ModelRequest))
        returns = [p for r in requests for p in r.parts if isinstance(p, ToolReturnPart)]
        if len(returns) < len(steps):
            text, tool, arguments = steps[len(returns)]
            for word in text.split(" "):
                yield f"{word} "
            call_id = f"call-{len(returns) + 1}"
            yield {1: DeltaToolCall(name=tool, json_args=arguments, tool_call_id=call_id)}
        else:
            for word in f"Done: {returns[-2].content}, and the customer knows.".split(" "):
                yield f"{word} "

    return FunctionModel(stream_function=stream)


if __name__ == "__main__":
    run_agent_worker([build_flow()])
