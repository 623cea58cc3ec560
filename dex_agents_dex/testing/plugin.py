"""The kit as pytest fixtures. Needs pytest and pytest-asyncio, which nothing else of the kit does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest
import pytest_asyncio

from ..flow import AgentSessionFlow
from .gates import FileGate
from .invocations import InvocationLog
from .stack import AgentTestStack


class OpenAgentTestStack(Protocol):
    """Opens a stack that the fixture closes; the arguments are those of `AgentTestStack`."""

    async def __call__(
        self,
        flows: Sequence[AgentSessionFlow],
        worker_module: str,
        *,
        worker_cwd: Path | None = None,
        worker_env: Mapping[str, str] | None = None,
        server_address: str | None = None,
        engine_options: Sequence[str] = (),
    ) -> AgentTestStack: ...


class OpenFileGate(Protocol):
    """Names a gate in the test's directory."""

    def __call__(self, name: str) -> FileGate: ...


@pytest_asyncio.fixture
async def open_agent_test_stack(tmp_path: Path) -> AsyncIterator[OpenAgentTestStack]:
    """Opens stacks in directories of their own under ``tmp_path``, and ends them with the test."""
    opened: list[AgentTestStack] = []
    async with AsyncExitStack() as stacks:

        async def open_stack(
            flows: Sequence[AgentSessionFlow],
            worker_module: str,
            *,
            worker_cwd: Path | None = None,
            worker_env: Mapping[str, str] | None = None,
            server_address: str | None = None,
            engine_options: Sequence[str] = (),
        ) -> AgentTestStack:
            directory = tmp_path / f"stack-{len(opened) + 1}"
            directory.mkdir()
            stack = AgentTestStack(
                directory,
                flows,
                worker_module,
                worker_cwd=worker_cwd,
                worker_env=worker_env,
                server_address=server_address,
                engine_options=engine_options,
            )
            opened.append(stack)
            return await stacks.enter_async_context(stack)

        yield open_stack


@pytest.fixture
def file_gate(tmp_path: Path) -> OpenFileGate:
    """Gates in ``tmp_path``: tell the Worker that directory by its environment."""
    return lambda name: FileGate(tmp_path, name)


@pytest.fixture
def invocation_log(tmp_path: Path) -> InvocationLog:
    """The log ``invocations`` in ``tmp_path``: tell the Worker that directory by its environment."""
    return InvocationLog(tmp_path / "invocations")
