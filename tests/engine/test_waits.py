"""Waits of Steps: timers, Channels, and who gets which message."""

import asyncio
from datetime import timedelta

from dex import (
    AsyncContext,
    Channel,
    ChannelMap,
    Context,
    Flow,
    PersistenceSchema,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepMovement,
    Timer,
    Wait,
    go_to_many,
    graceful_complete,
    rpc,
)

from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step

INBOX, OTHER = Channel("Inbox", str), Channel("Other", str)
REPLIES = ChannelMap("Replies", str)


class _Inboxed(Scenario):
    """A Scenario whose Channels a test fills from outside."""

    def __init__(self, *steps: Step[str]) -> None:
        super().__init__(*steps, schema=(INBOX, OTHER, REPLIES))

    @rpc(is_transactional=True)
    def publish(self, context: Context, texts: list[str]) -> RPCResult[bool]:
        for text in texts:
            INBOX.publish(context, text)
        return RPCResult(True)

    @rpc(is_transactional=True)
    def publish_other(self, context: Context, text: str) -> RPCResult[bool]:
        OTHER.publish(context, text)
        REPLIES.publish(context, "a b", text)
        return RPCResult(True)


async def _what_came(context: AsyncContext, given: str) -> StepDecision:
    return graceful_complete(
        [
            *INBOX.results(context),
            *OTHER.results(context),
            *(["timer"] if context.has_timer_fired() else []),
        ]
    )


async def test_for_n__takes_the_oldest_once_there_are_enough(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_n(2))

    flow = _Inboxed(step("Taking", _what_came, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", ["a"])
        await rig.rpc(flow.publish, "f", ["b", "c"])
        assert await rig.outputs("f", list[str]) == [("Taking-1", ["a", "b"])]


async def test_any_of__a_fired_timer_wins_over_messages(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.any_of(INBOX.for_n(2), Timer.by_duration(timedelta(minutes=5)))

    flow = _Inboxed(step("Taking", _what_came, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", ["a"])
        rig.engine.skip_time(timedelta(minutes=5))
        assert await rig.outputs("f", list[str]) == [("Taking-1", ["timer"])]


async def test_any_of__only_the_winner_consumes(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.any_of(OTHER.for_one(), INBOX.for_one())

    async def take(context: AsyncContext, given: str) -> StepDecision:
        left = [str(INBOX.size(context)), str(OTHER.size(context))]
        return graceful_complete([*INBOX.results(context), *OTHER.results(context), *left])

    taking = step("Taking", take, wait_for=wait)

    async def fill(context: AsyncContext, given: str) -> StepDecision:
        INBOX.publish(context, "in")
        OTHER.publish(context, "out")
        return go_to_many(StepMovement.of(type(taking), ""))

    flow = _Inboxed(step("Fill", fill), taking)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [("Taking-1", ["out", "1", "0"])]


async def test_all_of__waits_for_timer_and_channels(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.all_of(
            INBOX.at_least(1), REPLIES.for_one("a b"), Timer.by_duration(timedelta(hours=1))
        )

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([*INBOX.results(context), *REPLIES.results(context, "a b")])

    flow = _Inboxed(step("Taking", take, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", ["a", "b"])
        rig.engine.skip_time(timedelta(hours=1))
        await rig.rpc(flow.publish_other, "f", "r")
        assert await rig.outputs("f", list[str]) == [("Taking-1", ["a", "b", "r"])]


async def test_waits__share_a_channel_in_execution_order(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(INBOX.for_one())

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([given, *INBOX.results(context)])

    taking = step("Taking", take, wait_for=wait)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(*(StepMovement.of(type(taking), name) for name in ("first", "second")))

    flow = _Inboxed(step("Fan", fan), taking)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await rig.rpc(flow.publish, "f", ["a", "b"])
        outputs = await rig.outputs("f", list[str])
        assert sorted(text for _, (_, text) in outputs) == ["a", "b"]
        assert len({name for _, (name, _) in outputs}) == 2


async def test_wait__sees_what_was_published_before_it_began(on_engine: OnEngine) -> None:
    gate = Channel("Gate", str)

    class Late(Step[str]):
        async def wait_for(self, context: AsyncContext, given: str) -> Wait:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
            return Wait.until(gate.at_most(5))

        async def execute(self, context: AsyncContext, given: str) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
            return graceful_complete(list(gate.results(context)))

    class First(Step[str]):
        async def execute(self, context: AsyncContext, given: str) -> StepDecision:  # type: ignore[override]  # the SDK's base class knows the synchronous form only
            gate.publish(context, "early")
            return go_to_many(StepMovement.of(Late, ""))

    class Gated(Flow[str]):
        def get_steps(self) -> StepList[str]:
            return StepList.start_step(First()).other_steps(Late())

        def get_persistence_schema(self) -> PersistenceSchema:
            return PersistenceSchema.of(gate)

    flow = Gated()
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [("Late-1", ["early"])]


async def test_wait__of_a_cancelled_step_takes_nothing_more(on_engine: OnEngine) -> None:
    heir_waits = asyncio.Event()

    async def wait(context: AsyncContext, given: str) -> Wait:
        if given == "heir":
            heir_waits.set()
        return Wait.until(INBOX.for_one())

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([given, *INBOX.results(context)])

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(StepMovement.of(type(doomed), ""), StepMovement.of(type(cancelling), ""))

    async def cancel(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(StepMovement.of(type(heir), "heir")).with_canceling_steps(type(doomed))

    doomed, heir = step("Doomed", take, wait_for=wait), step("Heir", take, wait_for=wait)
    cancelling = step("Cancelling", cancel)
    flow = _Inboxed(step("Fan", fan), doomed, heir, cancelling)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await heir_waits.wait()
        await rig.rpc(flow.publish, "f", ["one"])
        assert await rig.outputs("f", list[str]) == [("Heir-1", ["heir", "one"])]
