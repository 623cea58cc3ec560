"""What was said is recorded by those who ask for it, and by nobody else."""

from __future__ import annotations

import json
from typing import Any

from ..binding.script import Call, Reply, script
from .conftest import Tracer
from .flows import traced_flow
from .metered_runner import InstrumentedRunner

LOOK = Call(id="c-look", tool="look", output="a secret view")
FAIL = Call(id="c-fail", tool="pay", error="a secret fault")
REPLIES = (
    Reply(crash="a secret crash", crashes_until_attempt=1, calls=(LOOK,)),
    Reply(calls=(FAIL,)),
    Reply(text="a secret answer"),
)


def said(role: str, *parts: dict[str, Any]) -> str:
    return json.dumps([{"role": role, "parts": parts}])


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def asked(call: Call) -> dict[str, Any]:
    arguments = call.arguments()
    return {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": arguments}


async def test_content__is_recorded_when_asked_for(tracer: Tracer) -> None:
    flow = traced_flow(tracer.state_dir, tracer.provider(), record_content=True)
    async with tracer.serving(flow) as conversation:
        await conversation.start(*REPLIES)
        spans = await tracer.turn()

    content = [
        {
            name.removeprefix("gen_ai."): value
            for name, value in span.attributes.items()
            if name.endswith((".messages", ".arguments", ".result"))
        }
        for span in spans
    ]
    prompt = {"input.messages": said("user", text(script(*REPLIES)))}
    arguments, result = "tool.call.arguments", "tool.call.result"
    assert content == [
        {},
        prompt,
        {**prompt, "output.messages": said("assistant", asked(LOOK))},
        {arguments: LOOK.arguments(), result: "a secret view"},
        {**prompt, "output.messages": said("assistant", asked(FAIL))},
        {arguments: FAIL.arguments(), result: "a secret fault"},
        {**prompt, "output.messages": said("assistant", text("a secret answer"))},
        {},
    ]
    assert [span.status for span in spans if span.status[0] == "ERROR"] == [
        ("ERROR", "a secret crash"),
        ("ERROR", "a secret fault"),
    ]


async def test_content__is_not_recorded_unless_asked_for(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(*REPLIES)
        spans = await tracer.turn()

    assert len(spans) == 8
    assert "secret" not in json.dumps(tracer.data())


async def test_spans_of_a_framework__lie_within_its_call(tracer: Tracer) -> None:
    provider = tracer.provider()
    runner = InstrumentedRunner(tracer.state_dir, provider)
    flow = traced_flow(tracer.state_dir, provider, runner=runner)
    async with tracer.serving(flow) as conversation:
        await conversation.start(Reply())
        await tracer.turn()

    names = {span["context"]["span_id"]: span["name"] for span in tracer.data()}
    inner = [names[s["parent_id"]] for s in tracer.data() if s["name"] == "POST /v1/messages"]
    assert inner == ["chat model-1"]
