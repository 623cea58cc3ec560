"""One turn is one trace: its model calls, its tool calls and its end, whatever they come to."""

from __future__ import annotations

from attrs import evolve

from dex_agents_model import AgentUsage

from ..binding.script import Call, Reply
from .conftest import Tracer
from .expected import Expected
from .flows import COMPACTING, traced_flow
from .metered_runner import SUMMARY_USAGE, USAGE, WastefulRunner
from .seen import committed_usage


async def test_turn__is_a_trace(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(Reply(text="an answer"))
        spans = await tracer.turn()

    expected = Expected(tracer.session_id)
    assert spans == [expected.begin(), expected.chat(), expected.end("completed")]


async def test_turn__has_a_trace_of_its_own(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(Reply())
        await conversation.say(Reply())
        await tracer.turn(2)

    assert len({span["context"]["trace_id"] for span in tracer.data()}) == 2


async def test_turn__is_no_part_of_what_its_worker_was_started_in(tracer: Tracer) -> None:
    around = tracer.provider().get_tracer("a program")
    with around.start_as_current_span("a program"):
        async with tracer.serving() as conversation:
            await conversation.start(Reply())
            spans = await tracer.turn()

    expected = Expected(tracer.session_id)
    assert spans == [expected.begin(), expected.chat(), expected.end("completed")]


async def test_tools__are_spans_of_their_attempts(tracer: Tracer) -> None:
    calls = (
        Call(id="c-look", tool="look"),
        Call(id="c-no", tool="look", error="not today"),
        Call(id="c-pay", tool="pay", crash="the line is cut"),
    )
    async with tracer.serving() as conversation:
        await conversation.start(Reply(calls=calls), Reply())
        begin, first, *tools, second, end = await tracer.turn()

    expected = Expected(tracer.session_id)
    assert [begin, first, second, end] == [
        expected.begin(),
        expected.chat("RunModel-1"),
        expected.chat("RunModel-2"),
        expected.end("completed"),
    ]
    assert sorted(tools, key=lambda span: span.attributes["dex.step.execution_id"]) == [
        expected.tool("pay", "c-pay", "CallSingleAttemptTool-1", error="ConnectionError"),
        expected.tool("look", "c-look", "CallTool-1", status="succeeded"),
        expected.tool("look", "c-no", "CallTool-2", status="failed", error="ToolExecutionError"),
    ]


async def test_tool__is_no_span_when_a_person_refuses_it(tracer: Tracer) -> None:
    calls = (Call(id="c-yes", tool="ask"), Call(id="c-no", tool="ask"))
    async with tracer.serving() as conversation:
        await conversation.start(Reply(calls=calls), Reply())
        yes, no = await conversation.questions(2)
        await conversation.answer(yes, approved=True)
        await conversation.answer(no, approved=False)
        spans = await tracer.turn()

    expected = Expected(tracer.session_id)
    assert spans == [
        expected.begin(),
        expected.chat("RunModel-1"),
        expected.tool("ask", "c-yes", "CallSingleAttemptTool-1", status="succeeded"),
        expected.chat("RunModel-2"),
        expected.end("completed"),
    ]


async def test_model_call__that_fails_is_a_span_of_its_own(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(Reply(crash="the line is cut", crashes_until_attempt=1))
        spans = await tracer.turn()
        snapshot = await conversation.end_of_turn()

    expected = Expected(tracer.session_id)
    assert spans == [
        expected.begin(),
        expected.failed_chat("ConnectionError"),
        expected.chat(attempt=2),
        expected.end("completed"),
    ]
    assert committed_usage(tracer.data()) == snapshot.usage == USAGE


async def test_model_call__that_fails_tells_what_it_used_and_counts_for_nothing(
    tracer: Tracer,
) -> None:
    wasteful = traced_flow(
        tracer.state_dir, tracer.provider(), runner=WastefulRunner(tracer.state_dir)
    )
    async with tracer.serving(wasteful) as conversation:
        await conversation.start(Reply(crash="the line is cut", crashes_until_attempt=1))
        spans = await tracer.turn()
        snapshot = await conversation.end_of_turn()

    expected = Expected(tracer.session_id)
    assert spans == [
        expected.begin(),
        expected.failed_chat("ConnectionError", used=USAGE),
        expected.chat(attempt=2),
        expected.end("completed"),
    ]
    assert committed_usage(tracer.data()) == snapshot.usage == USAGE


async def test_model_call__whose_answer_is_refused_has_used_something(tracer: Tracer) -> None:
    twice = Reply(calls=(Call(id="c-same", tool="look"), Call(id="c-same", tool="look")))
    async with tracer.serving() as conversation:
        await conversation.start(twice)
        spans = await tracer.turn()
        snapshot = await conversation.end_of_turn()

    expected = Expected(tracer.session_id)
    refused = (expected.chat(attempt=attempt) for attempt in (1, 2, 3))
    assert spans == [
        expected.begin(),
        *(
            evolve(
                span,
                status=("ERROR",),
                attributes={**span.attributes, "error.type": "ContractBroken"},
            )
            for span in refused
        ),
        expected.end("failed", "ERROR", **{"error.type": "TurnFailed"}),
    ]
    assert committed_usage(tracer.data()) == snapshot.usage == AgentUsage()


async def test_turn__that_is_cancelled_ends_its_spans(tracer: Tracer) -> None:
    async with tracer.serving() as conversation:
        await conversation.start(Reply(gate="model", text="never said"))
        await conversation.gate("model").wait_until_reached()
        await conversation.sessions.cancel_turn(tracer.session_id)
        await conversation.gate("model, cut off").wait_until_reached()
        spans = await tracer.turn()

    expected = Expected(tracer.session_id)
    assert sorted(spans, key=lambda span: span.name) == [
        expected.failed_chat("CancelledError"),
        expected.end("cancelled"),
        expected.begin(),
    ]


async def test_summary__is_a_model_call_of_the_turn_that_needs_it(tracer: Tracer) -> None:
    flow = traced_flow(tracer.state_dir, tracer.provider(), options=COMPACTING)
    async with tracer.serving(flow) as conversation:
        await conversation.start(Reply(text_characters=3000))
        await conversation.end_of_turn()
        await conversation.say(Reply())
        spans = await tracer.turn(2)
        snapshot = await conversation.end_of_turn(2)

    expected = Expected(tracer.session_id, "turn-2")
    assert spans == [
        expected.begin(),
        expected.summary("CompactHistory-1"),
        expected.chat("RunModel-3"),
        expected.end("completed"),
    ]
    assert committed_usage(tracer.data()) == snapshot.usage == USAGE + SUMMARY_USAGE + USAGE
