"""``python -m tests.binding.late_worker``: a Worker whose claims wait at a gate, and go another way than its tasks.

Its tasks come through the cable that the environment names. What it asks of a session goes straight to the server.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Final

import dex

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.dex_server import SERVER_ADDRESS_VARIABLE, DexServer
from dex_agents_dex.flow import agent_registry
from dex_agents_dex.serving import serving
from dex_agents_dex.testing.serving import READY_LINE
from dex_agents_model.ids import SessionId
from dex_agents_model.requests import ClaimToolCall

from .flows import OPTIONS, SCRIPTED, STATE_DIR_VARIABLE
from .scripted_runner import ScriptedRunner, gate_of

CABLE_VARIABLE: Final = "CABLE_ADDRESS"
_SOON: Final = timedelta(seconds=30)


class LateFlow(AgentSessionFlow):
    """Holds each claim at the gate ``claiming``, and tells by another how it went."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(ScriptedRunner(state_dir), flow_type=SCRIPTED, options=OPTIONS)
        self._state_dir = state_dir

    async def claim(self, session: SessionId, run_id: str, request: ClaimToolCall) -> bool:
        gate = gate_of(self._state_dir, session, "claiming")
        gate.mark_reached()
        await gate.wait_for_release()
        told = "claim refused"
        try:
            if granted := await super().claim(session, run_id, request):
                told = "claim granted"
            return granted
        finally:
            gate_of(self._state_dir, session, told).mark_reached()


async def main() -> None:
    flow = LateFlow(Path(os.environ[STATE_DIR_VARIABLE]))
    registry = agent_registry(flow)
    straight = DexServer(os.environ[SERVER_ADDRESS_VARIABLE])
    cable = DexServer(os.environ[CABLE_VARIABLE])
    pull = dex.PullWorkerOptions(max_concurrent_tasks=4)
    with tempfile.TemporaryDirectory() as directory:
        cache = dex.open_blob_cache(dex.BlobCacheConfig(directory, 1 << 20))
        worker = dex.AsyncWorker(registry, cache, cable.worker_options(pull))
        async with dex.AsyncClient(registry, cache, straight.client_options) as client:
            flow.bind(client)
            async with serving(worker, _SOON):
                sys.stdout.write(f"{READY_LINE}\n")
                sys.stdout.flush()
                await asyncio.to_thread(sys.stdin.read)  # until whoever started it is gone


if __name__ == "__main__":
    asyncio.run(main())
