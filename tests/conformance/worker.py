"""``python -m tests.conformance.worker``: a Worker for the stories' Flows."""

import os
from datetime import timedelta
from pathlib import Path

from dex_agents_dex import port
from dex_agents_dex.testing import run_agent_worker

from .witnessed import STATE_DIR_VARIABLE, build_flows

if __name__ == "__main__":
    # An attempt that has beaten is spent when its Worker dies: here none beats before, on a slow machine either.
    port._BEAT = timedelta(minutes=1)  # type: ignore[misc]  # it is final for everybody else
    # Every call that a story holds keeps a slot.
    run_agent_worker(build_flows(Path(os.environ[STATE_DIR_VARIABLE])), worker_slots=100)
