"""Who does not trace needs no OpenTelemetry and pays nothing for it."""

from __future__ import annotations

import subprocess
import sys

from dex_agents_dex import AgentSessionFlow
from dex_agents_dex.tracing import Tracing

from ..binding.script import Reply
from .conftest import Tracer
from .flows import TRACED, traced_flow
from .metered_runner import MeteredRunner

IMPORTS_THE_BINDING = """
import sys
sys.modules["opentelemetry"] = None  # an import of it fails
import dex_agents_dex, dex_agents_dex.cli, dex_agents_dex.testing
"""


def test_binding__is_imported_without_opentelemetry() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS_THE_BINDING], check=True)


async def test_flow__is_not_traced_unless_asked(tracer: Tracer) -> None:
    async with tracer.serving(traced_flow(tracer.state_dir, None)) as conversation:
        await conversation.start(Reply())
        await conversation.end_of_turn()

    assert tracer.data() == []


async def test_flow__is_traced_by_nobody_without_a_provider(tracer: Tracer) -> None:
    flow = AgentSessionFlow(MeteredRunner(tracer.state_dir), flow_type=TRACED, tracing=Tracing())
    async with tracer.serving(flow) as conversation:
        await conversation.start(Reply(text="an answer"))
        assert await conversation.answers() == ["an answer"]
