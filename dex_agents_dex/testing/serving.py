"""The Worker child of a test: the main of a module that a stack starts."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from ..dex_server import SERVER_ADDRESS_VARIABLE
from ..errors import EngineUnavailable
from ..flow import AgentSessionFlow
from ..runtime import DEFAULT_DRAIN_TIMEOUT, DEFAULT_WORKER_SLOTS, AgentRuntime

READY_LINE: Final = "agent worker ready"


def run_agent_worker(
    flows: Sequence[AgentSessionFlow],
    *,
    worker_slots: int = DEFAULT_WORKER_SLOTS,
    drain_timeout: timedelta = DEFAULT_DRAIN_TIMEOUT,
) -> None:
    """Serve ``flows`` on the server that DEX_SERVER_ADDRESS names, until SIGTERM.

    What runs then has ``drain_timeout`` to end. It prints a line when it is ready, and also ends
    when its standard input is a pipe and closes: the test that started it is gone.

    Raises:
        EngineUnavailable: DEX_SERVER_ADDRESS is not set, or that server takes no Worker.
    """
    address = os.environ.get(SERVER_ADDRESS_VARIABLE)
    if not address:
        raise EngineUnavailable(
            f"{SERVER_ADDRESS_VARIABLE} names no Dex server: an AgentTestStack sets it for its Workers"
        )
    runtime = AgentRuntime(
        *flows,
        server_address=address,
        worker_slots=worker_slots,
        drain_timeout=drain_timeout,
    )
    asyncio.run(_serve(runtime))


async def _serve(runtime: AgentRuntime) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        loop.add_reader(sys.stdin, _stop_at_end_of_input, loop, stopping)
    async with runtime:
        sys.stdout.write(f"{READY_LINE}, pid {os.getpid()}\n")
        sys.stdout.flush()
        await stopping.wait()


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin)
        stopping.set()
