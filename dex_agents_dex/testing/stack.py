"""A server, Worker processes and a client for one test, each of which the test may kill."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ..client import AgentSessionClient
from ..dex_server import SERVER_ADDRESS_VARIABLE
from ..flow import AgentSessionFlow
from ..runtime import AgentRuntime
from .children import ChildProgram
from .history import StepHistoryEntry, read_step_history
from .private_engine import PrivateEngine
from .serving import READY_LINE


class AgentTestStack:
    """Everything that a session needs, in real processes; an async context manager that ends them all.

    ``flows`` are for the client; the module ``worker_module`` builds the same ones and calls
    `run_agent_worker`. It runs as ``python -m``, in ``worker_cwd`` or the current directory, with
    ``worker_env`` on top of the environment. The server is ``server_address``, or the one that
    DEX_SERVER_ADDRESS names, or a dev engine of the stack's own, with its data under ``tmp_path``;
    that one is started with ``engine_options``, as in ``("--redelivery", "same-attempt")``.
    Logs of all children lie in ``tmp_path``.
    """

    def __init__(
        self,
        tmp_path: Path,
        flows: Sequence[AgentSessionFlow],
        worker_module: str,
        *,
        worker_cwd: Path | None = None,
        worker_env: Mapping[str, str] | None = None,
        server_address: str | None = None,
        engine_options: Sequence[str] = (),
    ) -> None:
        self._tmp_path = tmp_path
        self._flows = tuple(flows)
        self._worker_module = worker_module
        self._worker_cwd = worker_cwd
        self._worker_env = dict(worker_env or {})
        self._given_address = server_address or os.environ.get(SERVER_ADDRESS_VARIABLE)
        self._engine_options = tuple(engine_options)
        self._engine: PrivateEngine | None = None
        self._runtime: AgentRuntime | None = None
        self._workers: list[ChildProgram] = []
        self._running = AsyncExitStack()

    @property
    def server_address(self) -> str:
        """Where clients and Workers find the server: ``host:port``."""
        return self._entered.server_address

    def sessions(self, flow: AgentSessionFlow | str) -> AgentSessionClient:
        """The client for the sessions of one of the flows, named by itself or by its type."""
        return self._entered.sessions(flow)

    async def start_worker(self, server_address: str | None = None) -> ChildProgram:
        """Start one more Worker and wait until it serves.

        It finds the server at ``server_address``, as behind a `Cable`, or where everybody does.

        Raises:
            RuntimeError: it ended at once; the message has the end of its log.
            TimeoutError: it did not say in time that it is ready.
        """
        name = f"worker-{len(self._workers) + 1}"
        worker = ChildProgram(
            name,
            [self._worker_module],
            log_path=self._tmp_path / f"{name}.log",
            cwd=self._worker_cwd,
            env={
                **self._worker_env,
                SERVER_ADDRESS_VARIABLE: server_address or self.server_address,
            },
        )
        self._workers.append(worker)
        await worker.wait_for_line(READY_LINE)
        return worker

    def kill_engine(self) -> None:
        """SIGKILL the dev engine and wait.

        Raises:
            RuntimeError: the server is not this stack's own.
        """
        self._own_engine.kill()

    async def restart_engine(self) -> None:
        """Start the dev engine again, on the same port and data; SIGKILL it first when it runs.

        Raises:
            RuntimeError: the server is not this stack's own, or did not start.
        """
        self._own_engine.kill()
        await self._own_engine.start()

    async def read_step_history(self, flow_id: str) -> tuple[StepHistoryEntry, ...]:
        """Every Step method of the session that has ended, in the order of its ends."""
        return await read_step_history(self.server_address, flow_id)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            address = self._given_address
            if address is None:
                engine = PrivateEngine(
                    self._tmp_path / "engine",
                    log_path=self._tmp_path / "engine.log",
                    options=self._engine_options,
                )
                stack.callback(engine.kill)
                await engine.start()
                self._engine = engine
                address = engine.server_address
            stack.callback(self._kill_workers)
            self._runtime = await stack.enter_async_context(
                AgentRuntime(*self._flows, server_address=address, serve=False)
            )
            self._running = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._running.aclose()

    @property
    def _entered(self) -> AgentRuntime:
        if self._runtime is None:
            raise RuntimeError("enter the stack first: async with AgentTestStack(...) as stack")
        return self._runtime

    @property
    def _own_engine(self) -> PrivateEngine:
        if self._engine is None:
            raise RuntimeError(
                f"the server at {self.server_address} is not this stack's own and is left alone;"
                f" name no server, and unset {SERVER_ADDRESS_VARIABLE}, to have an engine to kill"
            )
        return self._engine

    def _kill_workers(self) -> None:
        for worker in self._workers:
            worker.kill()
