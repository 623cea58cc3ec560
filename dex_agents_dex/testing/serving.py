"""The Worker child of a test: the main of a module that a stack starts."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Sequence
from typing import Final

from ..dex_server import SERVER_ADDRESS_VARIABLE
from ..flow import AgentSessionFlow
from ..runtime import DEFAULT_WORKER_SLOTS, AgentRuntime

READY_LINE: Final = "agent worker ready"


def run_agent_worker(
    flows: Sequence[AgentSessionFlow], *, worker_slots: int = DEFAULT_WORKER_SLOTS
) -> None:
    """Serve ``flows`` on the server that DEX_SERVER_ADDRESS names, until SIGTERM.

    Prints a line when it is ready. It also ends when its standard input is a pipe and closes: the
    test that started it is gone.

    Raises:
        KeyError: DEX_SERVER_ADDRESS is not set.
        EngineUnavailable: that server takes no Worker.
    """
    asyncio.run(_serve(flows, os.environ[SERVER_ADDRESS_VARIABLE], worker_slots))


async def _serve(flows: Sequence[AgentSessionFlow], server_address: str, worker_slots: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        loop.add_reader(sys.stdin, _stop_at_end_of_input, loop, stopping)
    async with AgentRuntime(*flows, server_address=server_address, worker_slots=worker_slots):
        sys.stdout.write(f"{READY_LINE}, pid {os.getpid()}\n")
        sys.stdout.flush()
        await stopping.wait()


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin)
        stopping.set()
