"""A record that claims a success and holds no result."""

from dex_agents_model.calls import RequestedToolCall, Succeeded


def succeed(call: RequestedToolCall) -> Succeeded:
    return Succeeded(call)  # refused: call-arg
