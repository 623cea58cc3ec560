"""A turn goes on in another Worker, and its trace with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from dex_agents_dex.testing import ChildProgram, wait_until
from dex_agents_dex.testing.plugin import OpenAgentTestStack

from ..binding.conversation import Conversation
from ..binding.script import Call, Reply
from .conftest import ROOT, WORKER, Tracer
from .expected import Expected
from .flows import STATE_DIR_VARIABLE, TRACED, traced_flow
from .seen import in_file, seen_in

ASKS = (Reply(calls=(Call(id="c-ask", tool="ask"),)), Reply())


async def test_trace__goes_on_in_another_worker(
    tmp_path: Path, open_agent_test_stack: OpenAgentTestStack
) -> None:
    def spans_of(worker: ChildProgram) -> list[dict[str, Any]]:
        return in_file(tmp_path / f"spans-{worker.pid}")

    stack = await open_agent_test_stack(
        (traced_flow(tmp_path, None),),
        WORKER,
        worker_cwd=ROOT,
        worker_env={STATE_DIR_VARIABLE: str(tmp_path)},
    )
    session_id = f"traced-{uuid4().hex[:8]}"
    conversation = Conversation(stack.sessions(TRACED), session_id, tmp_path)
    first = await stack.start_worker()
    await conversation.start(*ASKS)
    (question,) = await conversation.questions()
    first.kill()

    second = await stack.start_worker()
    await conversation.answer(question, approved=True)
    await wait_until("the end of the turn's trace", lambda: len(spans_of(second)) == 3)

    expected = Expected(session_id)
    begun, ended = spans_of(first), spans_of(second)
    assert seen_in(begun) == [expected.begin(), expected.chat("RunModel-1")]
    assert seen_in(ended, of=begun) == [
        expected.tool("ask", "c-ask", "CallSingleAttemptTool-1", status="succeeded"),
        expected.chat("RunModel-2"),
        expected.end("completed"),
    ]
    (agent,) = (span for span in ended if span["name"].startswith("invoke_agent"))
    assert agent["start_time"] == begun[0]["start_time"]


async def test_trace__is_sampled_once_and_for_all(tracer: Tracer) -> None:
    unsampled = tracer.provider(sampler=ALWAYS_OFF)
    async with tracer.serving(traced_flow(tracer.state_dir, unsampled)) as conversation:
        await conversation.start(*ASKS)
        (question,) = await conversation.questions()

    async with tracer.serving() as conversation:
        await conversation.answer(question, approved=True)
        await conversation.end_of_turn()
        await conversation.say(Reply())
        spans = await tracer.turn(2)

    expected = Expected(tracer.session_id, "turn-2")
    assert spans == [expected.begin(), expected.chat("RunModel-3"), expected.end("completed")]
    assert len(spans) == len(tracer.data())


async def test_calls__stand_alone_when_their_turn_was_begun_untraced(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(Reply())
        await tracer.turn()
    async with tracer.serving(traced_flow(tracer.state_dir, None)) as conversation:
        await conversation.say(*ASKS)
        (question,) = await conversation.questions()

    async with tracer.serving() as conversation:
        await conversation.answer(question, approved=True)
        await conversation.end_of_turn(2)
        await conversation.say(Reply())
        await tracer.turn(3)

    alone = [span for span in tracer.data() if span["attributes"]["dex.turn.id"] == "turn-2"]
    assert [(span["name"], span["parent_id"]) for span in alone] == [
        ("execute_tool ask", None),
        ("chat model-1", None),
    ]
