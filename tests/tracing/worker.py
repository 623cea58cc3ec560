"""``python -m tests.tracing.worker``: a Worker that appends each span to a file as it ends."""

import os
from pathlib import Path

from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from dex_agents_dex.testing import run_agent_worker

from .flows import STATE_DIR_VARIABLE, traced_flow
from .seen import SpanFile, new_provider

if __name__ == "__main__":
    state_dir = Path(os.environ[STATE_DIR_VARIABLE])
    provider = new_provider(SimpleSpanProcessor(SpanFile(state_dir / f"spans-{os.getpid()}")))
    run_agent_worker((traced_flow(state_dir, provider),))
