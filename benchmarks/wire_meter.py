"""A relay between programs and an engine that counts what passes."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from attrs import define

_CHUNK_BYTES: Final = 1 << 18


@define
class WireMeter:
    """Bytes in both directions, of all connections, HTTP/2 framing included."""

    address: str = ""
    passed_bytes: int = 0

    async def _relay(self, source: StreamReader, sink: StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await source.read(_CHUNK_BYTES):
                self.passed_bytes += len(chunk)
                sink.write(chunk)
                await sink.drain()
        sink.close()


@asynccontextmanager
async def wire_meter(engine_address: str) -> AsyncIterator[WireMeter]:
    """Listens on a port of its own until the block ends."""
    host, _, port = engine_address.rpartition(":")
    meter = WireMeter()

    async def connect(reader: StreamReader, writer: StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(
            meter._relay(reader, engine_writer), meter._relay(engine_reader, writer)
        )

    server = await asyncio.start_server(connect, host, 0)
    async with server:
        meter.address = f"{host}:{server.sockets[0].getsockname()[1]}"
        yield meter
