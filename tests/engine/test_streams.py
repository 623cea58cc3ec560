"""Dex Streams: order, tokens, long polls, paging and trimming."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from dex import (
    AsyncContext,
    DexServiceError,
    LongPollTimeoutError,
    StepDecision,
    Stream,
    graceful_complete,
)
from grpc import StatusCode

from dex_agents_dex.devengine import DevEngine
from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, rig, step

SHORT = timedelta(seconds=1)
LONG = timedelta(seconds=20)


async def _nothing(context: AsyncContext, given: str) -> StepDecision:
    return graceful_complete(given)


async def test_stream__is_read_in_order_from_its_head_and_after_each_token(
    on_engine: OnEngine,
) -> None:
    events = Stream("Events", str, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        for text in "abc":
            await rig.client.write_stream("s", events, f"from-{text}", text)
        await rig.client.write_stream("another", events, "x", "another's")
        read, token = [], ""
        for _ in range(3):
            message = await rig.client.read_stream("s", events, token, LONG)
            token = message.resume_token
            read.append((message.value, message.source))
        assert read == [("a", "from-a"), ("b", "from-b"), ("c", "from-c")]
        with pytest.raises(LongPollTimeoutError):
            await rig.client.read_stream("s", events, token, SHORT)


async def test_stream__a_long_poll_ends_with_the_next_message(on_engine: OnEngine) -> None:
    events = Stream("Events", str, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        reading = asyncio.create_task(rig.client.read_stream("s", events, "", LONG))
        await rig.client.write_stream("s", events, "me", "news")
        assert (await reading).value == "news"


async def test_stream__keeps_what_a_step_wrote_although_its_attempt_failed(
    on_engine: OnEngine,
) -> None:
    events = Stream("Events", str, 1 << 20)

    async def write(context: AsyncContext, given: str) -> StepDecision:
        events.write(context, f"attempt {context.attempt}")
        if context.attempt == 1:
            raise RuntimeError("after writing")
        return graceful_complete("done")

    flow = Scenario(step("Writing", write), schema=(events,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "s", "")
        await rig.result("s")
        page = await rig.client.list_stream_messages("s", events, 10)
        assert [(m.value, m.source) for m in page.messages] == [
            ("attempt 2", "#Writing-1"),
            ("attempt 1", "#Writing-1"),
        ]


async def test_stream__is_listed_newest_first_in_pages(on_engine: OnEngine) -> None:
    events = Stream("Events", int, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        for number in range(5):
            await rig.client.write_stream("s", events, "me", number)
        pages: list[list[int]] = []
        token = ""
        while not pages or token:
            page = await rig.client.list_stream_messages("s", events, 2, token)
            pages.append([message.value for message in page.messages])
            token = page.next_page_token
        assert pages == [[4, 3], [2, 1], [0]]


async def test_stream__pages_of_large_messages_fit_what_a_client_takes(
    on_engine: OnEngine,
) -> None:
    events = Stream("Events", str, 1 << 24)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        for number in range(60):
            await rig.client.write_stream("s", events, "me", f"{number:02}" * 50_000)
        listed: list[int] = []
        token = ""
        while not listed or token:
            page = await rig.client.list_stream_messages("s", events, 1000, token)
            listed += [int(message.value[:2]) for message in page.messages]
            token = page.next_page_token
        assert listed == list(range(59, -1, -1))


async def test_stream__is_trimmed_from_the_oldest_over_all_flows(on_engine: OnEngine) -> None:
    events = Stream("Events", str, 3000)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        await rig.client.write_stream("a", events, "me", "first")
        first = await rig.client.read_stream("a", events, "", LONG)
        for number in range(4):
            await rig.client.write_stream("ab"[number % 2], events, "me", str(number) * 1000)
        # 4000 bytes were written to a Stream of 3000: the head moved for both Flows.
        head = await rig.client.read_stream("a", events, first.resume_token, LONG)
        assert head.value[0] == "2"
        page = await rig.client.list_stream_messages("b", events, 10)
        assert [message.value[0] for message in page.messages] == ["3"]
        trimmed = await rig.client.list_stream_messages("a", events, 10, first.resume_token)
        assert (trimmed.messages, trimmed.next_page_token) == ([], "")


async def test_stream__refuses_a_message_above_its_limit(on_engine: OnEngine) -> None:
    events = Stream("Events", str, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        with pytest.raises(DexServiceError, match="the limit is 102400") as refused:
            await rig.client.write_stream("s", events, "me", "x" * 102_401)
        assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_stream__tokens_grow_over_a_restart(tmp_path: Path) -> None:
    events = Stream("Events", str, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with (
        DevEngine(tmp_path / "data") as engine,
        rig(engine, tmp_path, flow, has_worker=False) as before,
    ):
        await before.client.write_stream("s", events, "me", "old")
        old = await before.client.read_stream("s", events, "", LONG)
    async with (
        DevEngine(tmp_path / "data") as engine,
        rig(engine, tmp_path, flow, has_worker=False) as after,
    ):
        await after.client.write_stream("s", events, "me", "new")
        new = await after.client.read_stream("s", events, old.resume_token, LONG)
    assert new.value == "new"
    assert int(new.resume_token) > int(old.resume_token)


async def test_stream__is_read_from_its_head_with_a_token_of_another_data_directory(
    on_engine: OnEngine,
) -> None:
    events = Stream("Events", str, 1 << 20)
    flow = Scenario(step("Only", _nothing), schema=(events,))
    async with on_engine(flow, has_worker=False) as rig:
        await rig.client.write_stream("s", events, "me", "first")
        foreign = str(1 << 60)
        assert (await rig.client.read_stream("s", events, foreign, SHORT)).value == "first"
