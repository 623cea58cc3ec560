"""The connection between a Worker and its server as something that breaks. Nothing here understands what it carries."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from attrs import define, field, frozen

from .waiting import DEFAULT_TIMEOUT

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 64 * 1024


@define(eq=False)
class _Pattern:
    """Finds ``text`` in bytes that come in pieces."""

    text: bytes
    _seen: bytes = b""

    def comes_with(self, data: bytes) -> bool:
        self._seen += data
        is_found = self.text in self._seen
        self._seen = self._seen[-len(self.text) + 1 :] if len(self.text) > 1 else b""
        return is_found


@frozen(eq=False)
class _Link:
    """One TCP connection: from the Worker to here, and from here to the server."""

    from_worker: asyncio.StreamReader
    to_worker: asyncio.StreamWriter
    from_server: asyncio.StreamReader
    to_server: asyncio.StreamWriter
    words: _Pattern | None
    tasks: _Pattern | None


@define(eq=False)
class Cable:
    """A TCP relay on loopback to ``server_address``: give `address` to a Worker as its server's.

    An async context manager, in the event loop of the test. While the Worker's words are lost it
    does not know: its connections stand, and it waits for answers until `mend`. The server sees
    them end. One fault at a time; it concerns every connection of the cable.
    """

    server_address: str
    _listener: asyncio.Server | None = field(init=False, default=None)
    _links: set[_Link] = field(init=False, factory=set)
    _whole: asyncio.Event = field(init=False, factory=asyncio.Event)
    _broken: asyncio.Event = field(init=False, factory=asyncio.Event)
    _words: bytes | None = field(init=False, default=None)
    _task: bytes | None = field(init=False, default=None)

    @property
    def address(self) -> str:
        """``host:port``, while the cable is entered."""
        assert self._listener is not None, "enter the cable first: async with Cable(...) as cable"
        return f"{_HOST}:{self._listener.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """End every connection at once, on both sides. New ones pass."""
        for link in self._links:
            link.to_worker.transport.abort()
            link.to_server.transport.abort()

    def duplicate_delivery(self, step_type: str) -> None:
        """Let the next task of ``step_type`` reach the Worker, and lose the Worker's words from then on.

        For a server that redelivers, the Worker has vanished before any word about the task: it gives
        the same attempt to another Worker, while this one runs it. To be asked before the Worker
        connects.
        """
        self._task = step_type.encode()

    def lose_words_from(self, text: str) -> None:
        """Lose the Worker's words from the first that hold ``text``. To be asked before the Worker connects."""
        self._words = text.encode()

    async def wait_until_broken(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        """Wait until words are lost.

        Raises:
            TimeoutError: what they are to be lost from did not come in time.
        """
        async with asyncio.timeout(timeout.total_seconds()):
            await self._broken.wait()

    def mend(self) -> None:
        """End the connections on which words were lost, so that the Worker notices; new ones pass."""
        self._words = self._task = None
        self.cut()
        self._broken.clear()
        self._whole.set()

    async def __aenter__(self) -> Self:
        self._whole.set()
        self._listener = await asyncio.start_server(self._connect, _HOST, 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        self._whole.set()
        self.cut()

    async def _connect(
        self, from_worker: asyncio.StreamReader, to_worker: asyncio.StreamWriter
    ) -> None:
        await self._whole.wait()
        host, _, port = self.server_address.rpartition(":")
        try:
            from_server, to_server = await asyncio.open_connection(host, int(port))
        except OSError:  # the server is away: so is this
            to_worker.transport.abort()
            return
        words, task = self._words, self._task
        link = _Link(
            from_worker,
            to_worker,
            from_server,
            to_server,
            words=None if words is None else _Pattern(words),
            tasks=None if task is None else _Pattern(task),
        )
        self._links.add(link)
        try:
            await asyncio.gather(self._carry_words(link), self._carry_tasks(link))
        finally:
            to_worker.transport.abort()
            to_server.transport.abort()
            self._links.discard(link)

    async def _carry_words(self, link: _Link) -> None:
        while data := await _read(link.from_worker):
            if self._whole.is_set() and link.words is not None and link.words.comes_with(data):
                self._lose_words()
            if self._whole.is_set():
                await _write(link.to_server, data)
        link.to_server.close()

    async def _carry_tasks(self, link: _Link) -> None:
        while data := await _read(link.from_server):
            if self._whole.is_set() and link.tasks is not None and link.tasks.comes_with(data):
                self._lose_words()
            await _write(link.to_worker, data)
        if self._whole.is_set():
            link.to_worker.close()

    def _lose_words(self) -> None:
        self._whole.clear()
        self._broken.set()
        for link in self._links:
            link.to_server.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """What comes next; nothing once the connection has ended, however it ended."""
    try:
        return await reader.read(_CHUNK_BYTES)
    except OSError:
        return b""


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Pass it on, if there is still somebody there."""
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        writer.transport.abort()
