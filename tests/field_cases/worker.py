"""``python -m tests.field_cases.worker``: a Worker for all Flows of these cases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.testing import run_agent_worker

from . import agent, remote

STATE_DIR: Final = "FIELD_CASES_STATE_DIR"
PROVIDER_URL: Final = "FIELD_CASES_PROVIDER_URL"


def build_flows(state_dir: Path, provider_url: str) -> tuple[AgentSessionFlow, ...]:
    """Every Flow, built alike in a test and in its Workers."""
    return (*agent.build_flows(state_dir), *remote.remote_flows(state_dir, provider_url))


if __name__ == "__main__":
    run_agent_worker(
        build_flows(Path(os.environ[STATE_DIR]), os.environ[PROVIDER_URL]), worker_slots=64
    )
