"""OpenAI's streaming chat protocol, as replies of a scripted server. No rule is checked here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .sse_server import Json, Reply

USAGE: Json = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def text(*pieces: str) -> Reply:
    return _reply([{"content": piece} for piece in pieces], "stop")


def calls(*wanted: tuple[str, str, str], content: Sequence[str] = ()) -> Reply:
    """Tool calls, each (name, arguments, ID), with the arguments in pieces of a few characters."""
    deltas: list[Json] = [{"content": piece} for piece in content]
    for index, (name, arguments, call_id) in enumerate(wanted):
        start = {"name": name, "arguments": ""}
        deltas.append(_call_delta(index, start, id=call_id, type="function"))
        deltas += [
            _call_delta(index, {"arguments": arguments[at : at + 4]})
            for at in range(0, len(arguments), 4)
        ]
    return _reply(deltas, "tool_calls")


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
