"""OpenAI's streaming chat protocol, as replies of a scripted server, and what a strict server would refuse."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dex_agents_model import AgentUsage
from dex_agents_model.text import is_json_object

from .sse_server import Json, Reply

USAGE: Json = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
USED_BY_ONE_CALL = AgentUsage(
    requests=1, input_tokens=11, output_tokens=7, cache_read_tokens=3, reasoning_tokens=2
)


def text(*pieces: str, thinking: Sequence[str] = ()) -> Reply:
    """One frame a piece, then one that ends the answer, one with its usage and one that ends the stream."""
    thoughts = [{"reasoning_content": piece} for piece in thinking]
    return _reply([*thoughts, *({"content": piece} for piece in pieces)], "stop")


def calls(
    *wanted: tuple[str, str, str], content: Sequence[str] = (), finish_reason: str = "tool_calls"
) -> Reply:
    """Tool calls, each (name, arguments, ID), with the arguments in pieces of a few characters."""
    deltas: list[Json] = [{"content": piece} for piece in content]
    for index, (name, arguments, call_id) in enumerate(wanted):
        start = {"name": name, "arguments": ""}
        deltas.append(_call_delta(index, start, id=call_id, type="function"))
        deltas += [
            _call_delta(index, {"arguments": arguments[at : at + 4]})
            for at in range(0, len(arguments), 4)
        ]
    return _reply(deltas, finish_reason)


def _call_delta(index: int, function: Json, **fields: str) -> Json:
    return {"tool_calls": [{"index": index, "function": function, **fields}]}


def _reply(deltas: Sequence[Json], finish_reason: str) -> Reply:
    chunks = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    end: Json = {"index": 0, "delta": {}, "finish_reason": finish_reason}
    chunks += [_chunk([end]), {**_chunk([]), "usage": USAGE}]
    return Reply([*map(_frame, chunks), b"data: [DONE]\n\n"])


def _chunk(choices: list[Json]) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_735_732_800,
        "model": "scripted-1",
        "choices": choices,
    }


def _frame(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def refuse_invalid(messages: list[Json]) -> None:
    """Fail unless a strict provider would take these messages."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == [], "a tool call has no result right after it"
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            assert is_json_object(call["function"]["arguments"])
        assert message.get("content") or message.get("tool_calls"), f"{message} is empty"
    assert waiting == []
