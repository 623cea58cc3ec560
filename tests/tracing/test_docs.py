"""docs/tracing.md names what is recorded."""

from __future__ import annotations

import re

from ..binding.script import Call, Reply
from .conftest import ROOT, Tracer
from .flows import traced_flow


async def test_docs__name_exactly_the_attributes_that_are_recorded(tracer: Tracer) -> None:
    flow = traced_flow(tracer.state_dir, tracer.provider(), record_content=True)
    fails = Call(id="c-1", tool="look", error="not today")
    async with tracer.serving(flow) as conversation:
        await conversation.start(Reply(calls=(fails,)), Reply())
        spans = await tracer.turn()

    named = re.findall(
        r"`((?:gen_ai|dex|error)\.[a-z_.]+)`", (ROOT / "docs" / "tracing.md").read_text()
    )
    assert set(named) == {name for span in spans for name in span.attributes}
