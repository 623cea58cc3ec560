"""What a Step's decision does: next Steps, the kinds of close, cancellation."""

import asyncio

from dex import (
    AsyncContext,
    Channel,
    FlowErrorType,
    FlowStatus,
    Step,
    StepDecision,
    StepMovement,
    Wait,
    dead_end,
    force_complete,
    force_complete_if_channels_empty,
    force_fail,
    go_to,
    go_to_many,
    graceful_complete,
)

from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step


def _to(target: Step[str], given: str) -> StepMovement[str]:
    return StepMovement.of(type(target), given)


async def _end(context: AsyncContext, given: str) -> StepDecision:
    return dead_end()


async def test_next_steps__are_numbered_per_type_in_order(on_engine: OnEngine) -> None:
    async def report(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(f"{given} from {context.from_step_execution_id}")

    left, right = step("Left", report), step("Right", report)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(left, "a"), _to(right, "b"), _to(left, "c"))

    flow = Scenario(step("Fan", fan), left, right)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert sorted(await rig.outputs("f")) == [
            ("Left-1", "a from Fan-1"),
            ("Left-2", "c from Fan-1"),
            ("Right-1", "b from Fan-1"),
        ]


async def test_source__of_the_first_step_is_the_start(on_engine: OnEngine) -> None:
    async def report(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(context.from_step_execution_id)

    flow = Scenario(step("First", report))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("First-1", "__start__")]


async def test_graceful_completion__waits_for_every_active_step(on_engine: OnEngine) -> None:
    inbox = Channel("Inbox", str)

    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(inbox.for_one())

    async def take(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(inbox.results(context)[0])

    async def done(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("early")

    async def publish(context: AsyncContext, given: str) -> StepDecision:
        inbox.publish(context, "late")
        return dead_end()

    waiting, early, last = (
        step("Waiting", take, wait_for=wait),
        step("Early", done),
        step("Last", publish),
    )

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(waiting, ""), _to(early, ""))

    async def chain(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(waiting, ""), _to(early, ""), _to(last, ""))

    alone = Scenario(step("Fan", fan), waiting, early, schema=(inbox,))
    fed = _Fed(step("Chain", chain), waiting, early, last, schema=(inbox,))
    async with on_engine(alone, fed) as rig:
        await rig.client.start_flow(alone, "alone", "")
        await rig.client.start_flow(fed, "fed", "")
        assert sorted(await rig.outputs("fed")) == [("Early-1", "early"), ("Waiting-1", "late")]
        assert (await rig.client.describe_flow("alone")).status is FlowStatus.RUNNING


class _Fed(Scenario):
    pass


async def test_completion__without_an_output_is_none_of_the_results(on_engine: OnEngine) -> None:
    async def say_nothing(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete()

    async def say(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("said")

    silent, telling = step("Silent", say_nothing), step("Telling", say)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(silent, ""), _to(telling, ""))

    flow = Scenario(step("Fan", fan), silent, telling)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Telling-1", "said")]


async def test_dead_end__leaves_the_flow_running(on_engine: OnEngine) -> None:
    ended = asyncio.Event()

    async def end(context: AsyncContext, given: str) -> StepDecision:
        ended.set()
        return dead_end()

    flow = Scenario(step("Only", end))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        await ended.wait()
        assert (await rig.client.describe_flow("f")).status is FlowStatus.RUNNING


async def test_force_complete__drops_what_still_runs(on_engine: OnEngine) -> None:
    cancelled = asyncio.Event()

    async def hang(context: AsyncContext, given: str) -> StepDecision:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return dead_end()

    async def force(context: AsyncContext, given: str) -> StepDecision:
        return force_complete("forced")

    hanging, forcing = step("Hanging", hang), step("Forcing", force)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(hanging, ""), _to(forcing, ""))

    flow = Scenario(step("Fan", fan), hanging, forcing)
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Forcing-1", "forced")]
        async with asyncio.timeout(10):
            await cancelled.wait()


async def test_force_fail__fails_the_flow_with_its_reason(on_engine: OnEngine) -> None:
    async def fail(context: AsyncContext, given: str) -> StepDecision:
        return force_fail("out of stock")

    flow = Scenario(step("Only", fail))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        result = await rig.result("f")
        assert (result.status, result.error_type, result.error_message) == (
            FlowStatus.FAILED,
            FlowErrorType.STEP_DECISION_FAILED,
            "out of stock",
        )


async def test_force_complete_if_channels_empty__goes_on_while_messages_are_left(
    on_engine: OnEngine,
) -> None:
    inbox = Channel("Inbox", str)

    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(inbox.for_one())

    async def take(context: AsyncContext, given: str) -> StepDecision:
        taken = given + inbox.results(context)[0]
        return force_complete_if_channels_empty(taken, _to(taking, taken), inbox)

    taking = step("Taking", take, wait_for=wait)

    async def publish(context: AsyncContext, given: str) -> StepDecision:
        for text in "abc":
            inbox.publish(context, text)
        return go_to(type(taking), "")

    flow = Scenario(step("Publish", publish), taking, schema=(inbox,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Taking-3", "abc")]


async def test_cancelling__ends_every_execution_of_the_type_without_recovery(
    on_engine: OnEngine,
) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until(never.for_one())

    never = Channel("Never", str)
    waiting = step("Waiting", _end, wait_for=wait)

    async def cancel(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete("cancelled").with_canceling_steps(type(waiting))

    cancelling = step("Cancelling", cancel)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(waiting, ""), _to(waiting, ""), _to(cancelling, ""))

    flow = Scenario(step("Fan", fan), waiting, cancelling, schema=(never,))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Cancelling-1", "cancelled")]


async def test_cancelling_siblings__spares_those_of_another_source(on_engine: OnEngine) -> None:
    never, release = Channel("Never", str), Channel("Release", str)

    async def wait(context: AsyncContext, given: str) -> Wait:
        return Wait.until((never if given == "sibling" else release).for_one())

    async def survive(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(given)

    waiting = step("Waiting", survive, wait_for=wait)

    async def cancel(context: AsyncContext, given: str) -> StepDecision:
        release.publish(context, "go")
        return dead_end().with_canceling_sibling_steps(type(waiting))

    cancelling = step("Cancelling", cancel)

    async def fan_again(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(waiting, "sibling"), _to(cancelling, ""))

    again = step("Again", fan_again)

    async def fan(context: AsyncContext, given: str) -> StepDecision:
        return go_to_many(_to(waiting, "other"), _to(again, ""))

    flow = Scenario(step("Fan", fan), waiting, again, cancelling, schema=(never, release))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Waiting-1", "other")]
