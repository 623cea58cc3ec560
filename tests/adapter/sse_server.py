"""A server on loopback that streams scripted events over HTTP, as providers do. No rule is checked here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import h11
from attrs import define, field

Json: TypeAlias = dict[str, Any]
Served = TypeVar("Served", bound="SseServer")

_CHUNK_BYTES = 64 * 1024


@define
class Reply:
    """What one request is answered with: the frames of a stream, or a refusal."""

    frames: Sequence[bytes] = ()
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    is_cut: bool = False
    """Whether the connection breaks after the frames."""
    is_held: bool = False
    """Whether nothing more comes after the frames, until the client is gone."""


def refused(status: int, *, retry_after: str = "1") -> Reply:
    """``retry_after`` is in seconds."""
    return Reply(status=status, headers=[("retry-after", retry_after)])


def cut(whole: Reply, *, after_frames: int) -> Reply:
    """``whole`` with a connection that breaks in the middle."""
    return Reply(whole.frames[:after_frames], is_cut=True)


def held(whole: Reply, *, after_frames: int) -> Reply:
    """``whole`` with a stream that stops in the middle and stays open."""
    return Reply(whole.frames[:after_frames], is_held=True)


@define
class SseServer:
    """Answers each request with the next reply, and keeps the requests' bodies."""

    replies: list[Reply]
    requests: list[Json] = field(factory=list)
    base_url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(our_role=h11.SERVER)
        try:
            while (body := await _read_request(connection, reader)) is not None:
                request: Json = json.loads(body)
                self.requests.append(request)
                reply = self.reply_to(request)
                for event in _events(reply):
                    writer.write(connection.send(event) or b"")
                    await writer.drain()
                if reply.is_held:
                    await reader.read()
                if reply.is_cut or reply.is_held:
                    return
                connection.start_next_cycle()
        finally:
            writer.close()

    def reply_to(self, request: Json) -> Reply:
        """The next reply, whatever is asked."""
        return self.replies.pop(0)


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


def _events(reply: Reply) -> Iterator[h11.Event]:
    if reply.status != 200:
        error = json.dumps({"error": {"message": f"refused with {reply.status}"}}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(error)))]
        yield h11.Response(status_code=reply.status, headers=[*headers, *reply.headers])
        yield h11.Data(data=error)
    else:
        yield h11.Response(
            status_code=200,
            headers=[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")],
        )
        for frame in reply.frames:
            yield h11.Data(data=frame)
    if not reply.is_cut and not reply.is_held:
        yield h11.EndOfMessage()


@asynccontextmanager
async def sse_server(*replies: Reply) -> AsyncIterator[SseServer]:
    """Serves on a free port of loopback until the block ends."""
    async with serving(SseServer(list(replies))) as served:
        yield served


@asynccontextmanager
async def serving(served: Served) -> AsyncIterator[Served]:
    """Serves ``served`` on a free port of loopback until the block ends."""
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    served.base_url = f"http://127.0.0.1:{port}"
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()
