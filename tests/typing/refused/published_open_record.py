"""A result published for a call that has none yet."""

from dex_agents_model.calls import RequestedToolCall, Runnable
from dex_agents_model.decision import ToolCallFinished


def publish(call: RequestedToolCall) -> ToolCallFinished:
    return ToolCallFinished(Runnable(call))  # refused: arg-type
