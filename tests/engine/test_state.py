"""Attributes and Channels: what a method sees, and what its result leaves."""

from dex import (
    AsyncContext,
    Attribute,
    AttributeMap,
    AttributeMapNotLoadedError,
    Channel,
    ChannelMap,
    StepDecision,
    StepOptions,
    Wait,
    go_to,
    graceful_complete,
)

from tests.engine.conftest import OnEngine
from tests.engine.rig import Scenario, step


async def test_attributes__all_singletons_and_the_selected_map_entries_are_loaded(
    on_engine: OnEngine,
) -> None:
    color, whole, exact, unloaded = (
        Attribute("Color", str),
        AttributeMap("Whole", str),
        AttributeMap("Exact", str),
        AttributeMap("Unloaded", str),
    )

    async def read(context: AsyncContext, given: str) -> StepDecision:
        try:
            unloaded.get(context, "k")
        except AttributeMapNotLoadedError:
            seen = ["not loaded"]
        else:
            seen = ["loaded"]
        seen += [color.get(context), exact.get(context, "b c")]
        seen += [f"{k}={whole.get(context, k)}" for k in whole.get_all_instance_keys(context)]
        return graceful_complete(seen)

    options = StepOptions(
        execute_load_attribute_maps=(whole,),
        execute_load_attribute_map_instances=(exact.load("b c"),),
    )
    reading = step("Reading", read, options=options)

    async def write(context: AsyncContext, given: str) -> StepDecision:
        color.set(context, "red")
        for key in ("a", "b c", "d%"):
            for each in (whole, exact, unloaded):
                each.set(context, key, key.upper())
        return go_to(type(reading), "")

    flow = Scenario(step("Write", write), reading, schema=(color, whole, exact, unloaded))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [
            ("Reading-1", ["not loaded", "red", "B C", "a=A", "b c=B C", "d%=D%"])
        ]


async def test_attributes__a_null_deletes_the_key(on_engine: OnEngine) -> None:
    color, notes = Attribute("Color", str), AttributeMap("Notes", str)
    options = StepOptions(execute_load_attribute_maps=(notes,))

    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete([str(color.get(context)), *notes.get_all_instance_keys(context)])

    async def delete(context: AsyncContext, given: str) -> StepDecision:
        color.delete(context)
        notes.delete(context, "a")
        return go_to(type(reading), "")

    async def write(context: AsyncContext, given: str) -> StepDecision:
        color.set(context, "red")
        notes.set(context, "a", "1")
        notes.set(context, "b", "2")
        return go_to(type(deleting), "")

    reading = step("Reading", read, options=options)
    deleting = step("Deleting", delete)
    flow = Scenario(step("Write", write), deleting, reading, schema=(color, notes))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [("Reading-1", ["None", "b"])]


async def test_channels__pending_messages_load_and_are_deleted_by_id(on_engine: OnEngine) -> None:
    inbox, replies = Channel("Inbox", str), ChannelMap("Replies", str)
    # One Channel a method: SDK 1.23 copies the values of several in the order of a protobuf map,
    # which in one process of many differs between a map and its copy, and values change places.
    of_inbox = StepOptions(execute_load_channels=(inbox,))
    of_replies = StepOptions(
        execute_load_channel_map_instances=(replies.load_messages("x y"),),
    )

    async def read_replies(context: AsyncContext, found: str) -> StepDecision:
        messages = (message.value for message in replies.pending_messages(context, "x y"))
        return graceful_complete([found, *messages, *replies.get_all_instance_keys(context)])

    async def read_inbox(context: AsyncContext, given: str) -> StepDecision:
        messages = (message.value for message in inbox.pending_messages(context))
        return go_to(type(reading_replies), " ".join([str(inbox.size(context)), *messages]))

    async def delete(context: AsyncContext, given: str) -> StepDecision:
        second = inbox.pending_messages(context)[1]
        inbox.delete(context, second.message_id)
        inbox.publish(context, "d")
        return go_to(type(reading_inbox), "")

    async def publish(context: AsyncContext, given: str) -> StepDecision:
        for text in "abc":
            inbox.publish(context, text)
        replies.publish(context, "x y", "r")
        replies.publish(context, "z", "s")
        return go_to(type(deleting), "")

    reading_replies = step("ReadingReplies", read_replies, options=of_replies)
    reading_inbox = step("ReadingInbox", read_inbox, options=of_inbox)
    deleting = step("Deleting", delete, options=of_inbox)
    steps = (step("Publish", publish), deleting, reading_inbox, reading_replies)
    flow = Scenario(*steps, schema=(inbox, replies))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f", list[str]) == [
            ("ReadingReplies-1", ["3 a c d", "r", "x y", "z"])
        ]


async def test_locals__travel_from_wait_for_to_execute(on_engine: OnEngine) -> None:
    async def wait(context: AsyncContext, given: str) -> Wait:
        context.set_step_execution_local("note", "from wait_for")
        return Wait.skip_immediately()

    async def read(context: AsyncContext, given: str) -> StepDecision:
        return graceful_complete(context.get_step_execution_local("note", str))

    flow = Scenario(step("Only", read, wait_for=wait))
    async with on_engine(flow) as rig:
        await rig.client.start_flow(flow, "f", "")
        assert await rig.outputs("f") == [("Only-1", "from wait_for")]
