"""`DevEngine`: a Dex server for one machine, inside the caller's event loop.

Opens the data directory, starts the gRPC server, and ends both in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc
from dex.dexpb import dex_pb2_grpc

from dex_agents_dex.devengine.core.core import Core
from dex_agents_dex.devengine.data_directory import DataDirectory
from dex_agents_dex.devengine.loading import load_beginning, load_run
from dex_agents_dex.devengine.options import EngineOptions
from dex_agents_dex.devengine.server.absent_services import add_absent_services
from dex_agents_dex.devengine.server.bearer import BearerGate, TokenFile
from dex_agents_dex.devengine.server.decoding import DecodingGate
from dex_agents_dex.devengine.server.flow_service import FlowService
from dex_agents_dex.devengine.server.housekeeping import Housekeeping
from dex_agents_dex.devengine.server.hub import Hub
from dex_agents_dex.devengine.server.message_log import MessageLog
from dex_agents_dex.devengine.server.upkeep_service import UpkeepService
from dex_agents_dex.devengine.server.worker_streams import WorkerTaskService
from dex_agents_dex.devengine.store import Store, count_start

_LOGGER = logging.getLogger(__name__)

_LOOK_EVERY: Final = timedelta(seconds=1)
_UNUSED_LOOKS: Final = 3
_LAST_ANSWERS_WITHIN: Final = timedelta(seconds=1)
_LARGEST_MESSAGE_BYTES: Final = 256 << 20  # far above any frame, and below what SQLite stores
_GRPC_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # two engines on one port would split the traffic
)


class EngineNotStarted(Exception):
    """The engine cannot start: its directory or port is taken. The message is for a person."""


class DevEngine:
    """A dev engine on `host:port` (0: any free port), with its state in `data_dir`.

    Use it as an async context manager; `address` is where clients and Workers find it. Raises
    `EngineNotStarted` when the directory is another engine's or the port is taken, and
    `StoreUnusable` when the directory holds something else.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        options: EngineOptions | None = None,
    ) -> None:
        self._directory = DataDirectory(data_dir)
        self._host = host
        self._port = port
        self._options = options or EngineOptions()
        self._lock_file: int | None = None
        self._users_lock: int | None = None
        self._store: Store | None = None
        self._hub: Hub | None = None
        self._server: grpc.aio.Server | None = None
        self._worker_streams: WorkerTaskService | None = None
        self._housekeeping: Housekeeping | None = None
        self._failure: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None  # of the server, after a failure

    @property
    def address(self) -> str:
        """Where clients and Workers find it, ``host:port``, once it has started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the directory and listen.

        Raises:
            EngineNotStarted: the directory or the port is taken.
            StoreUnusable: the directory holds something else.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, grace: timedelta = timedelta()) -> None:
        """Stop handing out, give tasks `grace` to end, write what is left, free the directory."""
        if self._hub is not None:
            await self._dismiss_all(self._hub, grace)
        if self._housekeeping is not None:
            await self._housekeeping.stop()
            self._housekeeping = None
        if self._server is not None:
            await self._server.stop(_LAST_ANSWERS_WITHIN.total_seconds())
            self._server = None
        if self._store is not None:
            await self._store.close()
            self._store = None
        for descriptor in (self._lock_file, self._users_lock):
            if descriptor is not None:
                os.close(descriptor)
        self._lock_file = self._users_lock = None

    async def until_unused(self) -> None:
        """Return when no program has used the data directory for a moment; none can begin to until the end."""
        idle = 0
        while True:
            await asyncio.sleep(_LOOK_EVERY.total_seconds())
            closed = self._directory.close_to_users()
            idle = 0 if closed is None else idle + 1
            if closed is not None and idle == _UNUSED_LOOKS:
                self._users_lock = closed
                return
            if closed is not None:
                os.close(closed)

    def counts(self) -> dict[str, int]:
        """What the engine did since it started, and what it holds now, by name."""
        hub, store = self._hub, self._store
        assert hub is not None
        assert store is not None
        return {
            **hub.counts,
            "transactions": store.transactions,
            "commits": store.commits,
            **hub.holdings(),
        }

    async def failed(self) -> None:
        """Return never, or raise what made the store fail: the engine must be stopped then."""
        assert self._failure is not None
        await asyncio.shield(self._failure)

    def skip_time(self, by: timedelta) -> None:
        """Move the engine's clock forward and fire what became due. For tests."""
        assert self._hub is not None
        self._hub.clock.skipped += by
        self._hub.timers.fire_due()

    async def _start(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        _require_free(self._host, self._port)
        try:
            self._lock_file = self._directory.claim_for_engine()
        except OSError as error:
            raise EngineNotStarted(
                f"cannot use the data directory {self._directory.path}: {error.strerror or error}"
            ) from error
        if self._lock_file is None:
            raise EngineNotStarted(
                f"another dev engine is using {self._directory.path};"
                " stop it, or name another directory"
            )
        self._store = Store.open(
            self._directory.path,
            is_strict=self._options.durability == "strict",
            on_failure=self._on_store_failure,
        )
        self._hub = self._load(self._store)
        self._housekeeping = Housekeeping(
            self._hub, self._options.housekeeping_interval, self._options.retention
        )
        self._housekeeping.start()
        self._server = grpc.aio.server(options=_GRPC_OPTIONS, interceptors=self._interceptors())
        self._worker_streams = WorkerTaskService(self._hub)
        for add, service in (
            (dex_pb2_grpc.add_FlowServiceServicer_to_server, FlowService(self._hub)),
            (dex_pb2_grpc.add_WorkerTaskServiceServicer_to_server, self._worker_streams),
        ):
            add(service, self._server)  # type: ignore[no-untyped-call]  # generated code
        UpkeepService(self._hub).add_to(self._server)
        add_absent_services(self._server)
        try:
            bound = self._server.add_insecure_port(self.address)
        except RuntimeError as error:
            raise EngineNotStarted(f"cannot listen on {self.address}: {error}") from error
        if bound == 0:
            raise EngineNotStarted(f"cannot listen on {self.address}: it is in use")
        self._port = bound
        await self._server.start()
        self._directory.publish(self.address)

    async def _dismiss_all(self, hub: Hub, grace: timedelta) -> None:
        """Let Workers end what they have, then end every call: none is cut when the server stops."""
        hub.is_stopping = True
        hub.timers.close()
        hub.dispatcher.send_away()
        await hub.drain(grace)
        if self._failure is not None and not self._failure.done():
            await hub.store.barrier()
        hub.dismiss()
        if self._worker_streams is not None:
            self._worker_streams.end_streams()

    def _interceptors(self) -> tuple[grpc.aio.ServerInterceptor, ...]:
        path = self._options.auth_token_file
        if path is None:
            return (DecodingGate(),)
        try:
            return BearerGate(TokenFile(path)), DecodingGate()
        except (OSError, ValueError) as error:
            raise EngineNotStarted(f"cannot use the token file {path}: {error}") from error

    def _load(self, store: Store) -> Hub:
        beginning = store.load(load_beginning)
        core = Core(beginning.next_run_key, set(beginning.index_names))
        busy = [store.load(partial(load_run, run_key=key)) for key in beginning.busy_run_keys]
        start_number = store.load(count_start)
        store.start()
        hub = Hub(core, store, self._options.settings(), MessageLog(start_number))
        for key, due in beginning.timers:
            hub.timers.set(key, due)
        for run in busy:
            if run is not None:
                core.add_run(run, is_latest=True)
                hub.resume(run)
        return hub

    def _on_store_failure(self, error: BaseException) -> None:
        """Cut every call: what memory says from now on may never be durable."""
        _LOGGER.critical("the engine's store failed, nothing more is accepted: %r", error)
        if self._hub is not None:
            self._hub.is_stopping = True
        if self._server is not None:
            self._ending = asyncio.ensure_future(self._server.stop(None))
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


def _require_free(host: str, port: int) -> None:
    """gRPC would report a taken port, or a host of no machine, in several lines of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except socket.gaierror as error:
            raise EngineNotStarted(f"cannot listen on {host!r}: {error.strerror}") from error
        except OSError as error:
            raise EngineNotStarted(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
            ) from error
