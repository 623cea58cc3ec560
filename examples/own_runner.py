"""An agent without any framework: three methods make a runner. A function stands where a provider's API would."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from dex_agents_dex import (
    AgentRuntime,
    AgentSessionFlow,
    AgentSessionOptions,
    ToolEffect,
    ToolPolicy,
)
from dex_agents_model import (
    AgentTurnContext,
    AgentTurnOutcome,
    AgentUsage,
    DeferredToolCall,
    DeferredToolExecution,
    FrameworkMessage,
    MessageRole,
    ToolCallsRequested,
    ToolExecutionError,
    ToolExecutionResult,
    TurnCompleted,
    describe_tool_call_outcome,
)
from dex_agents_model.calls import FinalCall

Item: TypeAlias = dict[str, Any]
"""One item of a conversation, as the model's API has it: what is stored is this, as JSON."""


def find_order(arguments: Item, key: str) -> str:
    """Look an order up. ``key`` names the call; a read has no use for it."""
    if arguments["order_id"] != "7":
        raise ToolExecutionError(f"there is no order {arguments['order_id']}")
    return "order 7: one lamp, paid, broken on arrival"


def refund_order(arguments: Item, key: str) -> str:
    """Pay an order back, once however often it is asked with the same ``key``."""
    return f"refunded order {arguments['order_id']} under {key}"


TOOLS: dict[str, Callable[[Item, str], str]] = {
    "find_order": find_order,
    "refund_order": refund_order,
}
OPTIONS = AgentSessionOptions(
    tool_policies={
        "find_order": ToolPolicy(ToolEffect.READ),
        "refund_order": ToolPolicy(ToolEffect.IDEMPOTENT_WRITE),
    }
)


async def model(items: list[Item]) -> Item:
    """What a good model would say next: text, or the tools that it wants to be called."""
    results = [item["result"] for item in items if item["role"] == "tool"]
    asks = {0: ("find_order", "call-1"), 1: ("refund_order", "call-2")}
    if len(results) in asks:
        name, call_id = asks[len(results)]
        call = {"id": call_id, "name": name, "arguments": {"order_id": "7"}}
        return {"role": "assistant", "text": "", "calls": [call]}
    return {"role": "assistant", "text": f"Done: {results[-1]}.", "calls": []}


class Clerk:
    """Keeps nothing: each call may be on another Worker, years after the one before."""

    def build_user_message(self, text: str) -> FrameworkMessage:
        """What the user said, in the model's form."""
        return _message(MessageRole.USER, {"role": "user", "text": text}, text)

    async def run_model_step(self, turn: AgentTurnContext) -> AgentTurnOutcome:
        """Make one model call. Tools are asked for, not run: each becomes a durable Step of its own."""
        stored = [json.loads(message.framework_item) for message in turn.messages]
        produced: list[Item] = json.loads(turn.framework_run_state or "[]")
        asked = produced[-1]["calls"] if produced else []
        produced += [_result(turn, call["id"]) for call in asked]
        produced += [json.loads(said.framework_item) for said in turn.steering_messages]

        said = await model([*stored, *produced])
        produced.append(said)
        usage = AgentUsage(requests=1)
        if said["calls"]:
            calls = [_deferred(turn, call) for call in said["calls"]]
            return ToolCallsRequested(json.dumps(produced), calls, usage)
        turn.events.write_text_delta(said["text"])
        return TurnCompleted([_stored(item) for item in produced], usage)

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolExecutionResult:
        """Run one tool once. What it raises but ToolExecutionError is tried again as its effect says."""
        tool = TOOLS[call.tool_call.tool_name]
        arguments = json.loads(call.tool_call.arguments)
        return ToolExecutionResult(await asyncio.to_thread(tool, arguments, call.idempotency_key))


def _deferred(turn: AgentTurnContext, call: Item) -> DeferredToolCall:
    policy = turn.resolve_tool_policy(call["name"])
    return DeferredToolCall(call["id"], call["name"], json.dumps(call["arguments"]), policy)


def _result(turn: AgentTurnContext, call_id: str) -> Item:
    """A call's one result, whatever became of it: returned, failed, rejected, or not known."""
    record = turn.recorded_tool_call(call_id)
    assert isinstance(record, FinalCall), "the model is asked again when every call is final"
    outcome = describe_tool_call_outcome(record)
    return {"role": "tool", "id": call_id, "name": record.tool_name, "result": outcome}


def _stored(item: Item) -> FrameworkMessage:
    text = item["result"] if item["role"] == "tool" else item["text"]
    return _message(MessageRole(item["role"]), item, text)


def _message(role: MessageRole, item: Item, text: str) -> FrameworkMessage:
    return FrameworkMessage(
        role=role,
        framework_item=json.dumps(item),
        text=text,
        tool_call_id=item.get("id"),
        tool_name=item.get("name"),
    )


flow = AgentSessionFlow(Clerk(), flow_type="Clerk", options=OPTIONS)


async def main() -> None:
    """Have the clerk refund an order, and print what it says."""
    async with AgentRuntime(flow) as runtime:
        sessions = runtime.sessions(flow)
        await sessions.start_session("clerk-session")
        outcome = await sessions.run_turn("clerk-session", "My lamp came broken. Order 7.")
        print(outcome.answer)


if __name__ == "__main__":
    asyncio.run(main())
