"""``python -m tests.binding.worker``: a Worker for the Flows of these tests."""

import os
from pathlib import Path

from dex_agents_dex.testing import run_agent_worker

from .flows import STATE_DIR_VARIABLE, build_flows

if __name__ == "__main__":
    run_agent_worker(build_flows(Path(os.environ[STATE_DIR_VARIABLE])))
