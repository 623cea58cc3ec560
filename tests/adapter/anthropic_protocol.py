"""Anthropic's streaming messages protocol, as replies of a scripted server. No rule is checked here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .sse_server import Json, Reply

Block = tuple[Json, list[Json]]


def thinking(text: str, signature: str) -> Block:
    return (
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": signature},
        ],
    )


def text(*pieces: str) -> Block:
    return (
        {"type": "text", "text": ""},
        [{"type": "text_delta", "text": piece} for piece in pieces],
    )


def call(name: str, arguments: str, call_id: str) -> Block:
    """A tool call, its arguments in pieces of a few characters."""
    return (
        {"type": "tool_use", "id": call_id, "name": name, "input": {}},
        [
            {"type": "input_json_delta", "partial_json": arguments[at : at + 4]}
            for at in range(0, len(arguments), 4)
        ],
    )


def message(*blocks: Block) -> Reply:
    """One response of the model."""
    calls_tools = any(start["type"] == "tool_use" for start, _ in blocks)
    events: list[Json] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "scripted-1",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 3},
            },
        },
        *(event for index, block in enumerate(blocks) for event in _block_events(index, block)),
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "tool_use" if calls_tools else "end_turn",
                "stop_sequence": None,
            },
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    return Reply([_frame(event) for event in events])


def _block_events(index: int, block: Block) -> Sequence[Json]:
    start, deltas = block
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _frame(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
