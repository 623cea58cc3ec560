"""A server on loopback that speaks OpenAI's streaming chat protocol from scripts. No rule is checked here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import h11
from attrs import define, field

Json: TypeAlias = dict[str, Any]

_CHUNK_BYTES = 64 * 1024
USAGE: Json = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@define
class Reply:
    """What one request is answered with: the deltas of a stream, or a refusal."""

    deltas: Sequence[Json] = ()
    finish_reason: str = "stop"
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    is_cut: bool = False
    """Whether the connection breaks after the deltas."""


def text(*pieces: str) -> Reply:
    return Reply([{"content": piece} for piece in pieces])


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
    return Reply(deltas, finish_reason="tool_calls")


def _call_delta(index: int, function: Json, **fields: str) -> Json:
    return {"tool_calls": [{"index": index, "function": function, **fields}]}


@define
class OpenAIServer:
    """Answers each request with the next reply, and keeps the requests' bodies."""

    replies: list[Reply]
    requests: list[Json] = field(factory=list)
    base_url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(our_role=h11.SERVER)
        try:
            while (body := await _read_request(connection, reader)) is not None:
                self.requests.append(json.loads(body))
                reply = self.replies.pop(0)
                for event in _events(reply, len(self.requests)):
                    writer.write(connection.send(event) or b"")
                    await writer.drain()
                if reply.is_cut:
                    return
                connection.start_next_cycle()
        finally:
            writer.close()


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes | None:
    """The body of the next request, or None when the client is gone."""
    body = b""
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(_CHUNK_BYTES))
            case h11.Data(data=data):
                body += bytes(data)
            case h11.EndOfMessage():
                return body
            case h11.ConnectionClosed():
                return None


def _events(reply: Reply, number: int) -> Iterator[h11.Event]:
    if reply.status != 200:
        error = json.dumps({"error": {"message": f"refused with {reply.status}"}}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(error)))]
        yield h11.Response(status_code=reply.status, headers=[*headers, *reply.headers])
        yield h11.Data(data=error)
        yield h11.EndOfMessage()
        return
    yield h11.Response(
        status_code=200,
        headers=[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")],
    )
    for delta in reply.deltas:
        yield _frame(_chunk(number, [{"index": 0, "delta": delta, "finish_reason": None}]))
    if reply.is_cut:
        return
    end: Json = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    yield _frame(_chunk(number, [end]))
    yield _frame({**_chunk(number, []), "usage": USAGE})
    yield h11.Data(data=b"data: [DONE]\n\n")
    yield h11.EndOfMessage()


def _chunk(number: int, choices: list[Json]) -> Json:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_735_732_800,
        "model": "scripted-1",
        "choices": choices,
    }


def _frame(data: Json) -> h11.Data:
    return h11.Data(data=b"data: " + json.dumps(data).encode() + b"\n\n")


@asynccontextmanager
async def openai_server(*replies: Reply) -> AsyncIterator[OpenAIServer]:
    """Serves on a free port of loopback until the block ends."""
    served = OpenAIServer(list(replies))
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    served.base_url = f"http://127.0.0.1:{port}/v1"
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()
